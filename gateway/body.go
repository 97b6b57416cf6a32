package gateway

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// buffers bounds the request bodies that are held at once.
type buffers struct {
	mu        sync.Mutex
	max, used int64
}

// take reserves n bytes, or says that they are not to be had.
func (b *buffers) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.max {
		return false
	}
	b.used += n
	return true
}

func (b *buffers) give(n int64) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}

var errOverloaded = errors.New("the request bodies held at once are over server.max_buffered")

// readBody reads a request's body whole, decoded. What its headers show to be
// no good is refused before a byte is asked for, so that a client that
// expects 100-continue need not send it.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, func(), *refusal) {
	if r.ContentLength > g.opt.MaxBody {
		return nil, nil, tooLarge(g.opt.MaxBody)
	}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header["Content-Encoding"], ",")))
	switch encoding {
	case "", "identity", "gzip", "x-gzip", "zstd":
	default:
		return nil, nil, unsupportedEncoding(encoding)
	}
	if k, ok := r.Context().Value(connKey{}).(*conn); ok {
		k.owesBody(true)
		defer k.owesBody(false)
	}
	in := &reserved{buffers: g.buffers, from: r.Body}
	if r.ContentLength < 0 { // else no more than the length comes, and that was looked at
		in.from = http.MaxBytesReader(w, r.Body, g.opt.MaxBody)
	}
	body, err := g.decode(in, encoding, r.ContentLength)
	if err == nil {
		return body, in.release, nil
	}
	in.release()
	var over *http.MaxBytesError
	switch {
	case errors.Is(err, errOverloaded):
		return nil, nil, overloaded
	case errors.As(err, &over) || errors.Is(err, errTooLong):
		return nil, nil, tooLarge(g.opt.MaxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, badBody("nothing came of the body for "+bodyTimeout.String(), "")
	case r.Context().Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) && encoding == "":
		return nil, nil, badBody("the body ended before its stated length", "")
	}
	return nil, nil, badBody("the body can't be read: "+err.Error(), "")
}

var errTooLong = errors.New("decoded body too long")

func (g *Gateway) decode(in *reserved, encoding string, length int64) ([]byte, error) {
	var from io.Reader
	switch encoding {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		from = z
	case "zstd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(g.opt.MaxBody, 1<<20))))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		from = z
	default:
		if length >= 0 && length <= smallBody { // the usual case: one buffer of the right size
			if !in.reserve(length) {
				return nil, errOverloaded
			}
			body := make([]byte, length)
			_, err := io.ReadFull(in.from, body)
			return body, err
		}
		from = in
	}
	var b bytes.Buffer
	_, err := io.Copy(&b, &reserved{buffers: in.buffers, from: io.LimitReader(from, g.opt.MaxBody+1), owner: in})
	if err == nil && int64(b.Len()) > g.opt.MaxBody {
		err = errTooLong
	}
	return b.Bytes(), err
}

// smallBody is the largest body, in bytes, that is given its room before it
// comes: a larger one takes room as it comes, so that one that is announced
// and never sent holds none.
const smallBody = 64 << 10

// reserved counts what is read from a body against the buffers.
type reserved struct {
	buffers *buffers
	from    io.Reader
	owner   *reserved // who gives the room back; nil: itself
	mu      sync.Mutex
	held    int64
}

func (r *reserved) reserve(n int64) bool {
	o := r
	if r.owner != nil {
		o = r.owner
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.buffers.take(n) {
		return false
	}
	o.held += n
	return true
}

func (r *reserved) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.owner != nil && n > 0 && !r.reserve(int64(n)) {
		return n, errOverloaded
	}
	return n, err
}

func (r *reserved) release() {
	r.mu.Lock()
	r.buffers.give(r.held)
	r.held = 0
	r.mu.Unlock()
}
