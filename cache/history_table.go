package cache

import (
	"encoding/binary"
	"fmt"
	"time"
)

// table is a block's columns.
type table struct {
	count  int
	names  [][]byte
	which  []byte
	times  []byte
	ends   []byte
	oldest int64
}

func (t *table) read(all []byte, h *BlockHead) error {
	d := decoder{rest: all}
	t.names = make([][]byte, d.count(1))
	for i := range t.names {
		t.names[i] = d.bytes()
	}
	t.count, t.oldest = h.Count, h.Oldest.UnixMicro()
	t.which, t.times, t.ends = d.take(2*columns*t.count), d.take(8*t.count), d.take(4*t.count)
	return d.end("columns of a block")
}

// wants says which names are wanted, by column; -1: any. may is false if one
// of them is in no request.
func (t *table) wants(f *RequestFilter) (want [columns]int, may bool) {
	for c := range want {
		want[c] = -1
	}
	for c, name := range f.Series.names() {
		if *name == "" {
			continue
		}
		if *name == Unnamed {
			name = new("")
		}
		for i := range t.names {
			if string(t.names[i]) == *name {
				want[c] = i
			}
		}
		if want[c] < 0 {
			return want, false
		}
	}
	return want, true
}

func (t *table) name(c, i int) int { return int(binary.LittleEndian.Uint16(t.which[2*(c*t.count+i):])) }

func (t *table) has(i int, want *[columns]int) bool {
	for c, n := range want {
		if n >= 0 && t.name(c, i) != n {
			return false
		}
	}
	return true
}

func (t *table) at(i int) time.Time {
	return time.UnixMicro(t.oldest + int64(binary.LittleEndian.Uint64(t.times[8*i:])&(1<<62-1)))
}

func (t *table) end(i int) int {
	if i < 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(t.ends[4*i:]))
}

// details are those of the i-th request, of all.
func (t *table) details(i int, all []byte) ([]byte, error) {
	from, to := t.end(i-1), t.end(i)
	if from > to || to > len(all) {
		return nil, fmt.Errorf("%w: request %d of a block is nowhere", ErrCodec, i)
	}
	return all[from:to], nil
}

func (t *table) request(i int, details []byte, r *Request) error {
	for c, name := range r.names() {
		n := t.name(c, i)
		if n >= len(t.names) {
			return fmt.Errorf("%w: request %d of a block has no name", ErrCodec, i)
		}
		*name = string(t.names[n])
	}
	r.At = t.at(i)
	d := decoder{rest: details}
	d.details(r)
	return d.end("request of a block")
}
