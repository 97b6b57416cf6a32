package providers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// connection is one to an upstream. One attempt at a time has it, and reads
// and writes it on its own goroutine: net/http's transport hands a request to
// one goroutine and its answer to another, which costs a third of a relayed
// call, and what it does by itself, like sending again, has to be prevented.
type connection struct {
	*markedConn
	in    bufio.Reader
	head  int       // bytes that the head of an answer may still take; only used while heads is set
	heads bool      // a head is being read
	since time.Time // idle since then
	quiet func() bool
}

const (
	// maxHead bounds the head of an answer, those before it (1xx) included.
	maxHead = 1 << 20
	// readBuffer is held by a stream as long as it lasts. Larger reads go past it.
	readBuffer = 2 << 10
	// writeBuffer takes a usual request, so that it goes out in one piece.
	writeBuffer = 4 << 10
	// smallRequest is a body that the kernel takes at once, whether the upstream
	// reads it or not. A larger one is sent while the answer is awaited: it may
	// be a refusal, after which nobody reads on.
	smallRequest = 16 << 10
	// refusalWithin is how long an upstream that stopped reading may take to say why.
	refusalWithin = 250 * time.Millisecond
)

var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

var errLongHead = fmt.Errorf("the head of the answer is longer than %d bytes", maxHead)

func newConnection(c *markedConn) *connection {
	k := &connection{markedConn: c, quiet: quietness(c.Conn)}
	if t, ok := c.Conn.(*tls.Conn); ok {
		beneath := k.quiet
		k.quiet = func() bool { return beneath() && nothingLeft(t) }
	}
	k.in = *bufio.NewReaderSize(k, readBuffer)
	return k
}

// Read is the reader's.
func (k *connection) Read(p []byte) (int, error) {
	if !k.heads {
		return k.markedConn.Read(p)
	}
	if k.head <= 0 {
		return 0, errLongHead
	}
	n, err := k.markedConn.Read(p[:min(len(p), k.head)])
	k.head -= n
	return n, err
}

// send sends a request on a connection and reads the head of its answer.
func (a *attempt) send(request *http.Request) (*http.Response, error) {
	k, err := a.connect()
	if err != nil {
		return nil, err
	}
	var unsent error
	if request.ContentLength <= smallRequest {
		if unsent = a.write(k, request); errors.Is(unsent, errSealed) {
			return nil, unsent
		}
	} else {
		a.writing = make(chan error, 1)
		go func() { a.writing <- a.write(k, request) }()
	}
	k.head, k.heads = maxHead, true
	response, err := http.ReadResponse(&k.in, request)
	for err == nil && response.StatusCode/100 == 1 && response.StatusCode != http.StatusSwitchingProtocols {
		response, err = http.ReadResponse(&k.in, request)
	}
	k.heads = false
	if err != nil {
		return nil, errors.Join(err, unsent)
	}
	a.reusable = unsent == nil && !response.Close && response.StatusCode >= 200
	return response, nil
}

// connect gives the attempt a connection, and notes where its mark stands.
func (a *attempt) connect() (*connection, error) {
	k := a.to.conns.take()
	if k == nil {
		ctx, stop := context.WithCancel(a.parent)
		defer stop()
		if !a.use(nil, stop) {
			return nil, context.Canceled
		}
		c, err := a.to.conns.dial(ctx, "tcp", a.to.base.address())
		if err != nil {
			return nil, err
		}
		k = newConnection(marked(c))
	}
	a.got, a.conn, a.mark = true, k.markedConn, k.mark.Load()
	k.may = a.may
	if !a.use(k, nil) {
		k.Close()
		return nil, net.ErrClosed
	}
	return k, nil
}

// write sends a request, and lets go of its body, which may be large and the
// answer long. The wait for the first byte begins anew: the time an upload took
// is not the upstream's.
func (a *attempt) write(k *connection, request *http.Request) error {
	w := writeBuffers.Get().(*bufio.Writer)
	w.Reset(k.markedConn)
	err := request.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writeBuffers.Put(w)
	a.sentAll()
	if err != nil {
		k.SetReadDeadline(time.Now().Add(refusalWithin))
	}
	return err
}

// part gives up the attempt's connection: to others, where it can serve them.
func (a *attempt) part() {
	k := a.leave()
	if k == nil { // it has ended, or net/http has the connection
		a.cancel(nil)
		if a.response != nil && a.to.transport != nil {
			a.response.Body.Close()
		}
		return
	}
	written := true
	if a.writing != nil {
		select {
		case err := <-a.writing:
			written = err == nil
		default:
			written = false
		}
	}
	if a.ended && a.reusable && written && k.in.Buffered() == 0 {
		a.to.conns.put(k)
		return
	}
	k.Close()
}
