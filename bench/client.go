//go:build linux

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

func newNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return nonceMark + hex.EncodeToString(b[:])
}

// pad makes a request's body about 1 KB.
var pad = strings.Repeat("x", 800)

// request is one call to be made.
type request struct {
	nonce  string
	stream bool
	header string // more header lines, each with its CRLF
	path   string // empty: that of chat completions
}

func (q *request) appendBody(b []byte) []byte {
	b = append(b, `{"model":"bench","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`...)
	b = append(append(append(append(b, q.nonce...), ' '), pad...), `"}],"temperature":0.7,"max_tokens":256,"stream":`...)
	return append(strconv.AppendBool(b, q.stream), '}')
}

// conn is a keep-alive connection to a peer. It is written on net.Conn, so
// that the generator costs less than what it loads.
type conn struct {
	addr string
	c    net.Conn
	r    *bufio.Reader
	body []byte
	out  []byte
	got  []byte
	want []byte
}

// timeout bounds one call. Nothing here takes long.
const timeout = 15 * time.Second

func (k *conn) close() {
	if k.c != nil {
		k.c.Close()
		k.c = nil
	}
}

// do makes a call and compares the answer with all that it must be.
func (k *conn) do(q *request) error {
	err := k.send(q)
	if err == nil {
		err = k.receive(q)
	}
	if err != nil {
		k.close()
	}
	return err
}

func (k *conn) send(q *request) (err error) {
	if k.c == nil {
		if k.c, err = net.Dial("tcp", k.addr); err != nil {
			return err
		}
		k.r = bufio.NewReaderSize(k.c, 4<<10)
	}
	k.c.SetDeadline(time.Now().Add(timeout))
	k.body = q.appendBody(k.body[:0])
	k.out = append(append(append(k.out[:0], "POST "...), cmp.Or(q.path, "/v1/chat/completions")...), " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nAccept: */*\r\nAuthorization: Bearer "+clientKey+"\r\n"...)
	k.out = append(append(k.out, q.header...), "Content-Length: "...)
	k.out = append(strconv.AppendInt(k.out, int64(len(k.body)), 10), "\r\n\r\n"...)
	k.out = append(k.out, k.body...)
	_, err = k.c.Write(k.out)
	return err
}

func (k *conn) receive(q *request) error {
	h, err := k.head()
	if err != nil {
		return err
	}
	return k.rest(q, h)
}

// rest reads the body after its head, and checks it.
func (k *conn) rest(q *request, h head) (err error) {
	if k.got, err = h.readBody(k.r, k.got[:0]); err != nil {
		return err
	}
	if q.stream {
		k.want = appendStream(k.want[:0], q.nonce)
	} else {
		k.want = appendPlain(k.want[:0], q.nonce)
	}
	if !bytes.Equal(k.got, k.want) {
		return mismatch(k.got, k.want)
	}
	if h.close {
		k.close()
	}
	return nil
}

func mismatch(got, want []byte) error {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(i-20, 0)
	return fmt.Errorf("the answer is %d bytes, and should be %d; they part at byte %d: %.80q instead of %.80q",
		len(got), len(want), i, got[from:], want[from:])
}

// head is what of a response's headers says how to read its body.
type head struct {
	length  int // -1: not said
	chunked bool
	close   bool
}

// head reads a response's status, which must be 200, and headers.
func (k *conn) head() (h head, err error) {
	h.length = -1
	line, err := k.r.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	status := string(bytes.TrimSpace(line))
	for {
		if line, err = k.r.ReadSlice('\n'); err != nil {
			return h, err
		}
		if len(line) <= 2 {
			break
		}
		switch line[0] | 0x20 {
		case 'c':
			if v, ok := cutHeader(line, "content-length:"); ok {
				if h.length, err = strconv.Atoi(v); err != nil {
					return h, err
				}
			} else if v, ok := cutHeader(line, "connection:"); ok {
				h.close = strings.EqualFold(v, "close")
			}
		case 't':
			if v, ok := cutHeader(line, "transfer-encoding:"); ok {
				h.chunked = v == "chunked"
			}
		}
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200") {
		body, _ := h.readBody(k.r, nil)
		return h, fmt.Errorf("%s: %.200s", status, body)
	}
	return h, nil
}

func (h head) readBody(r *bufio.Reader, b []byte) ([]byte, error) {
	if !h.chunked {
		if h.length < 0 {
			return b, errors.New("the answer says neither its length nor that it is chunked")
		}
		return readN(r, b, h.length)
	}
	for {
		var n int
		var err error
		if b, n, err = readChunk(r, b); n == 0 || err != nil {
			return b, err
		}
	}
}

// readChunk appends one chunk of a chunked body; n is 0 at the end of it.
func readChunk(r *bufio.Reader, b []byte) (_ []byte, n int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return b, 0, err
	}
	size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
	if err != nil {
		return b, 0, err
	}
	if size == 0 { // trailers, if any, and the empty line after them
		for {
			if line, err = r.ReadSlice('\n'); err != nil || len(line) <= 2 {
				return b, 0, err
			}
		}
	}
	if b, err = readN(r, b, int(size)); err != nil {
		return b, 0, err
	}
	_, err = r.Discard(2)
	return b, int(size), err
}

func readN(r *bufio.Reader, b []byte, n int) ([]byte, error) {
	start := len(b)
	for cap(b)-start < n {
		b = append(b[:cap(b)], 0)
	}
	b = b[:start+n]
	_, err := io.ReadFull(r, b[start:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
