package up

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Call is one request as it came over the wire.
type Call struct {
	N      int       // counted over the server's whole calls, from 1; 0: the body never came whole
	Conn   int       // which connection carried it, counted from 1
	At     time.Time // when its head had arrived
	Method string
	Target string // path and query, undecoded
	Head   []byte // request line and headers, byte for byte
	Lines  []Line // the headers in their order
	Body   []byte // without its framing

	gone chan struct{}
}

// Line is one header line.
type Line struct{ Name, Value string }

// Get gives the value of the first header line of that name, in any case.
func (c *Call) Get(name string) string {
	for _, l := range c.Lines {
		if strings.EqualFold(l.Name, name) {
			return l.Value
		}
	}
	return ""
}

// Values gives the values of all header lines of that name, in any case.
func (c *Call) Values(name string) []string {
	var out []string
	for _, l := range c.Lines {
		if strings.EqualFold(l.Name, name) {
			out = append(out, l.Value)
		}
	}
	return out
}

// Field gives one value of the JSON body, by its gjson path.
func (c *Call) Field(path string) gjson.Result { return gjson.GetBytes(c.Body, path) }

// Model is the model that the body names.
func (c *Call) Model() string { return c.Field("model").String() }

// Left says whether the peer goes away within d.
func (c *Call) Left(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-c.gone:
		return true
	case <-limit.C:
		return false
	}
}

func readHead(in *bufio.Reader) (*Call, error) {
	c := &Call{}
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		c.Head = append(c.Head, line...)
		line = strings.TrimRight(line, "\r\n")
		switch {
		case n == 0:
			method, rest, _ := strings.Cut(line, " ")
			target, _, ok := strings.Cut(rest, " ")
			if !ok {
				return nil, fmt.Errorf("request line %q", line)
			}
			c.Method, c.Target = method, target
		case line == "":
			return c, nil
		default:
			name, value, ok := strings.Cut(line, ":")
			if !ok {
				return nil, fmt.Errorf("header line %q", line)
			}
			c.Lines = append(c.Lines, Line{name, strings.TrimSpace(value)})
		}
	}
}

func readBody(in *bufio.Reader, c *Call, conn net.Conn) ([]byte, error) {
	if strings.EqualFold(c.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
	}
	if strings.EqualFold(c.Get("Transfer-Encoding"), "chunked") {
		return readChunks(in)
	}
	length := c.Get("Content-Length")
	if length == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(in, body)
	return body, err
}

func readChunks(in *bufio.Reader) ([]byte, error) {
	var body bytes.Buffer
	for {
		size, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(strings.TrimRight(size, "\r\n"), 16, 32)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			for { // trailers
				line, err := in.ReadString('\n')
				if err != nil {
					return nil, err
				}
				if line == "\r\n" {
					return body.Bytes(), nil
				}
			}
		}
		if _, err := io.CopyN(&body, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(len("\r\n")); err != nil {
			return nil, err
		}
	}
}

// header turns "Name: value" lines into a net/http header.
func header(lines []string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}
