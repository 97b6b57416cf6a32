package providers

import "io"

// cleaned reads what an upstream says of a failure, less our credentials. It
// reads up to maxErrorBody before it gives anything out: a failure is short,
// and a credential is found wherever it is cut.
type cleaned struct {
	from    io.Reader
	secrets secrets
	ready   []byte // clean, not given out yet
	held    []byte // the end of what was read: a credential may begin there
	err     error  // how from ended
}

func (c *cleaned) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.gather()
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// gather reads the next part. The longest credential is the first.
func (c *cleaned) gather() {
	buf := append(make([]byte, 0, len(c.held)+2<<10), c.held...)
	for c.err == nil && len(buf) < maxErrorBody {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		var n int
		n, c.err = c.from.Read(buf[len(buf):min(cap(buf), maxErrorBody)])
		buf = buf[:len(buf)+n]
	}
	c.ready, c.held = c.secrets.clean(buf), nil
	if c.err == nil {
		end := max(0, len(c.ready)-len(c.secrets[0])+1)
		c.ready, c.held = c.ready[:end:end], c.ready[end:]
	}
}
