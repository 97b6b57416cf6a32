package redis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fake is a server that says what a real one can't be brought to say at will.
// It knows enough to be connected to, as one server or as a cluster of one.
type fake struct {
	addr  string
	steps atomic.Int64 // scripts it was sent
	// answer to a script: a raw reply, or nothing to end the connection
	answer  atomic.Pointer[string]
	secret  atomic.Pointer[string] // once it was set
	loading atomic.Int32           // how often it still says that it is not there yet
}

func newFake(t *testing.T, answer string) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String()}
	f.answer.Store(&answer)
	var (
		done  sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			done.Go(func() { defer c.Close(); f.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		done.Wait()
	})
	return f
}

func (f *fake) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		args, err := command(r)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch strings.ToLower(args[0]) {
		case "hello":
			reply = "-ERR unknown command\r\n"
		case "config":
			reply = "*0\r\n"
		case "get":
			reply = "$-1\r\n"
			if f.loading.Add(-1) >= 0 {
				reply = "-LOADING Redis is loading the dataset in memory\r\n"
			} else if s := f.secret.Load(); s != nil {
				reply = fmt.Sprintf("$%d\r\n%s\r\n", len(*s), *s)
			}
		case "set", "setnx":
			f.secret.Store(&args[2])
		case "cluster":
			host, port, _ := net.SplitHostPort(f.addr)
			reply = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
		case "command":
			reply = "*0\r\n"
		case "evalsha", "eval":
			f.steps.Add(1)
			if reply = *f.answer.Load(); reply == "" {
				return
			}
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// command reads one, an array of strings.
func command(r *bufio.Reader) ([]string, error) {
	number := func(mark byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != mark {
			return 0, fmt.Errorf("%q", line)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}
