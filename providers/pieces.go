package providers

import "io"

// pieces is an answer of which nothing is known but its bytes: they are
// given on as they come. It is whole when it came to its end: its
// Content-Length's, or the last chunk's.
type pieces struct {
	*attempt
	needs bool // an empty one is no answer
	some  bool
	buf   []byte // room; what was read is others'
	size  int    // of the next buffer
	over  bool
	end   End
}

const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
	leastPiece = 1 << 10 // less room is not read into
)

func (p *pieces) Events() bool { return false }
func (p *pieces) End() End     { return p.end }
func (p *pieces) Close()       { p.finish(p.over) }

func (p *pieces) Next() (Piece, *Error) {
	if p.over {
		return Piece{Last: true}, nil
	}
	for {
		if len(p.buf) < leastPiece {
			p.size = max(p.size, smallPiece)
			p.buf = make([]byte, p.size)
		}
		n, err := p.read(p.buf)
		if n == len(p.buf) { // it comes fast
			p.size = min(2*p.size, largePiece)
		}
		data := p.buf[:n:n]
		p.buf = p.buf[n:]
		p.some = p.some || n > 0
		switch {
		case err == io.EOF && p.needs && !p.some:
			return Piece{}, p.unusable("with an empty body", nil)
		case err == io.EOF:
			p.over, p.end.Whole = true, true
			return Piece{Data: data, Last: true}, nil
		case err != nil && n == 0:
			return Piece{}, p.broken(err)
		case n > 0:
			return Piece{Data: data}, nil // an error comes again with the next read
		}
	}
}
