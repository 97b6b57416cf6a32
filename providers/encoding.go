package providers

import (
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decode undoes a Content-Encoding that nobody asked for. It reports false
// for one it does not know.
func (a *attempt) decode() bool {
	v := a.response.Header["Content-Encoding"]
	if len(v) == 0 || a.response.ContentLength == 0 {
		return true
	}
	switch strings.ToLower(strings.TrimSpace(strings.Join(v, ","))) {
	case "", "identity":
	case "gzip", "x-gzip":
		z := &lateGzip{from: a}
		a.from, a.decoder = z, z
	case "zstd":
		z, err := zstd.NewReader(a, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return false
		}
		a.from, a.decoder = z, z.IOReadCloser()
	default:
		return false
	}
	return true
}

// lateGzip reads gzip's header with the first bytes: until they come the
// attempt's status can be told.
type lateGzip struct {
	from io.Reader
	z    *gzip.Reader
}

func (g *lateGzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.from)
		if err != nil {
			return 0, err
		}
		g.z = z
	}
	return g.z.Read(p)
}

func (g *lateGzip) Close() error {
	if g.z == nil {
		return nil
	}
	return g.z.Close()
}
