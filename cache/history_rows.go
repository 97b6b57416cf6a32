package cache

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Rows are requests that are in no block yet, the oldest first. They are only
// ever added to: a copy of Rows stays as it was, whoever goes on adding. The
// zero value is empty.
type Rows struct {
	bytes []byte
	ends  []int // of each
}

// Add adds a request, of which it keeps nothing.
func (r *Rows) Add(q *Request) {
	r.bytes = appendRow(r.bytes, q)
	r.ends = append(r.ends, len(r.bytes))
}

// AddRow adds a row that Row gave. An error is ErrCodec: it is none.
func (r *Rows) AddRow(row []byte) error {
	if _, err := decodeRow(row); err != nil {
		return err
	}
	r.bytes = append(r.bytes, row...)
	r.ends = append(r.ends, len(r.bytes))
	return nil
}

// Len is how many there are, Size how many bytes they are.
func (r *Rows) Len() int  { return len(r.ends) }
func (r *Rows) Size() int { return len(r.bytes) }

// Full says that they are a block.
func (r *Rows) Full() bool { return len(r.ends) >= BlockRequests || len(r.bytes) >= BlockBytes }

// Emptied gives rows to go on with once these are a block.
func (r *Rows) Emptied() Rows {
	return Rows{bytes: make([]byte, 0, min(len(r.bytes)+len(r.bytes)/4, BlockBytes)), ends: make([]int, 0, len(r.ends))}
}

// Row is the i-th one's bytes.
func (r *Rows) Row(i int) []byte {
	from := 0
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.bytes[from:r.ends[i]:r.ends[i]]
}

func decodeRow(row []byte) (r Request, err error) {
	d := decoder{rest: row}
	for _, name := range r.names() {
		*name = string(d.bytes())
	}
	r.At = d.at()
	d.details(&r)
	return r, d.end("request")
}

// at takes a time of eight bytes.
func (d *decoder) at() time.Time {
	b := d.take(8)
	if d.bad {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b) & (1<<63 - 1)))
}

// Search calls give for the requests that f chooses, from the one before the
// index below on, the latest first, until it says that it is enough. f.After is
// not looked at.
func (r *Rows) Search(f *RequestFilter, below int, give func(i int, q *Request) (more bool)) error {
	for i := min(below, r.Len()) - 1; i >= 0; i-- {
		q, err := decodeRow(r.Row(i))
		if err != nil {
			return fmt.Errorf("request %d of %d: %w", i, r.Len(), err)
		}
		if f.chooses(&q) && !give(i, &q) {
			break
		}
	}
	return nil
}

// chooses is the filter, but for After.
func (f *RequestFilter) chooses(r *Request) bool {
	if !f.Since.IsZero() && r.At.Before(f.Since) || !f.Until.IsZero() && !r.At.Before(f.Until) {
		return false
	}
	has := r.Series.names()
	for i, want := range f.Series.names() {
		if *want != "" && *want != *has[i] && (*want != Unnamed || *has[i] != "") {
			return false
		}
	}
	return f.Find.finds(r.ID, &r.Record)
}

const hexDigits = "0123456789abcdef"

func (f *Find) finds(id string, record *Key) bool {
	if f.all() || f.ID != "" && f.ID == id {
		return true
	}
	if *record == (Key{}) {
		return false
	}
	if slices.Contains(f.Keys, *record) {
		return true
	}
	if f.Record == "" || len(f.Record) > 2*len(record) {
		return false
	}
	for i := range len(f.Record) {
		b := record[i/2]
		if i%2 == 0 {
			b >>= 4
		}
		if hexDigits[b&15] != f.Record[i] {
			return false
		}
	}
	return true
}
