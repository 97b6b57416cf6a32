package cache

import (
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// A request that is in no block yet is a row:
//
//	its names, Target the last; At, 8 bytes; bits; ID; the record's key, if it
//	has one; numbers; the timeline
//
// Numbers are unsigned varints, texts have their length before them, times are
// microseconds: since 1970, or since what they are counted from. What follows
// At, the details, is the same in a block.

// names of a request, as many as columns.
func (r *Request) names() [columns]*string {
	s := &r.Series
	return [...]*string{&s.Model, &s.Provider, &s.Operation, &s.User, &s.Key, &s.Tool, &s.Outcome, &s.Reason, &r.Target}
}

const columns = 9

// bits of the details
const (
	requestRecord = 1 << iota
	requestLeft
	requestTokens
	requestBilled
	requestSaved
)

// bits of a moment: which of its parts follow
const (
	momentTarget = 1 << iota // it is not the request's
	momentNone               // it has none
	momentStatus
	momentResult
	momentFor
	momentOf
	momentFence
)

func appendRow(b []byte, r *Request) []byte {
	for _, name := range r.names() {
		b = appendBytes(b, cut(*name))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(max(r.At.UnixMicro(), 0)))
	return appendDetails(b, r)
}

// cut gives a text as it is kept: no longer than a name may be.
func cut(s string) string {
	if len(s) <= MostName {
		return s
	}
	end := MostName
	for end > MostName-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

func appendDetails(b []byte, r *Request) []byte {
	var bits byte
	for bit, is := range [...]bool{r.Record != Key{}, r.Left, r.Tokens.Known, r.Billed.Known, r.Saved.Known} {
		if is {
			bits |= 1 << bit
		}
	}
	b = append(b, bits)
	b = appendBytes(b, cut(r.ID))
	if bits&requestRecord != 0 {
		b = append(b, r.Record[:]...)
	}
	b = appendSmall(b, r.Status)
	b = appendSmall(b, r.Attempts)
	b = appendMicros(b, r.Took)
	b = appendMicros(b, r.Upstream)
	b = appendMicros(b, r.Overhead)
	if t := &r.Tokens; t.Known {
		b = appendNumber(b, t.Input)
		b = appendNumber(b, t.Output)
		b = appendNumber(b, t.Cached)
	}
	for _, a := range [...]*Amount{&r.Billed, &r.Saved} {
		if a.Known {
			b = appendNumber(b, a.Dollars)
			b = appendNumber(b, min(a.Picos, picos-1))
		}
	}
	n := min(len(r.Timeline), MostMoments)
	b = binary.AppendUvarint(b, uint64(n))
	for i := range r.Timeline[:n] {
		b = appendMoment(b, &r.Timeline[i], r.Target)
	}
	return b
}

func appendMoment(b []byte, m *Moment, target string) []byte {
	var bits byte
	switch {
	case m.Target == "":
		bits |= momentNone
	case m.Target != target:
		bits |= momentTarget
	}
	if m.Status > 0 {
		bits |= momentStatus
	}
	if m.Result != "" {
		bits |= momentResult
	}
	if m.For > 0 {
		bits |= momentFor
	}
	if m.Of > 0 {
		bits |= momentOf
	}
	if m.Fence != 0 {
		bits |= momentFence
	}
	b = append(b, byte(m.What%happenings), bits)
	b = appendMicros(b, m.At)
	if bits&momentTarget != 0 {
		b = appendBytes(b, cut(m.Target))
	}
	if bits&momentStatus != 0 {
		b = appendSmall(b, m.Status)
	}
	if bits&momentResult != 0 {
		b = appendBytes(b, cut(m.Result))
	}
	if bits&momentFor != 0 {
		b = appendMicros(b, m.For)
	}
	if bits&momentOf != 0 {
		b = appendMicros(b, m.Of)
	}
	if bits&momentFence != 0 {
		b = binary.AppendUvarint(b, uint64(m.Fence))
	}
	return b
}

// appendNumber appends a number that is not negative, else zero.
func appendNumber(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(max(n, 0))) }

// appendSmall appends one for decoder.int.
func appendSmall(b []byte, n int) []byte { return appendNumber(b, int64(min(n, 1e6))) }

func appendMicros(b []byte, d time.Duration) []byte { return appendNumber(b, d.Microseconds()) }

// details takes what appendDetails wrote; r.Target is known.
func (d *decoder) details(r *Request) {
	bits := d.byte()
	if bits >= requestSaved<<1 {
		d.bad = true
	}
	r.Left, r.Tokens.Known = bits&requestLeft != 0, bits&requestTokens != 0
	r.Billed.Known, r.Saved.Known = bits&requestBilled != 0, bits&requestSaved != 0
	r.ID = string(d.bytes())
	if bits&requestRecord != 0 {
		copy(r.Record[:], d.take(len(r.Record)))
	}
	r.Status, r.Attempts = d.int(), d.int()
	r.Took, r.Upstream, r.Overhead = d.micros(), d.micros(), d.micros()
	if t := &r.Tokens; t.Known {
		t.Input, t.Output, t.Cached = d.int64(), d.int64(), d.int64()
	}
	for _, a := range [...]*Amount{&r.Billed, &r.Saved} {
		if a.Known {
			if a.Dollars, a.Picos = d.int64(), d.int64(); a.Picos >= picos {
				d.bad = true
			}
		}
	}
	n := d.count(3)
	if n > MostMoments {
		d.bad = true
	}
	if d.bad || n == 0 {
		return
	}
	r.Timeline = make([]Moment, n)
	for i := range r.Timeline {
		d.moment(&r.Timeline[i], r.Target)
	}
}

func (d *decoder) moment(m *Moment, target string) {
	m.What = Happening(d.byte())
	bits := d.byte()
	if m.What >= happenings || bits >= momentFence<<1 {
		d.bad = true
	}
	m.At = d.micros()
	switch {
	case bits&momentTarget != 0:
		m.Target = string(d.bytes())
	case bits&momentNone == 0:
		m.Target = target
	}
	if bits&momentStatus != 0 {
		m.Status = d.int()
	}
	if bits&momentResult != 0 {
		m.Result = string(d.bytes())
	}
	if bits&momentFor != 0 {
		m.For = d.micros()
	}
	if bits&momentOf != 0 {
		m.Of = d.micros()
	}
	if bits&momentFence != 0 {
		m.Fence = Fence(d.uint())
	}
}

// take takes n bytes.
func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.rest, d.bad = nil, true
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// micros takes a duration; one of centuries is damage.
func (d *decoder) micros() time.Duration {
	us := d.uint()
	if us > 1<<63/1000-1 {
		d.rest, d.bad = nil, true
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
