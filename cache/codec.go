package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// codecVersion is the first byte of encoded frames. A reader refuses what it
// does not know: a frame misread is another client's answer.
const codecVersion = 1

// ErrCodec says that bytes are no frames, or are those of a newer version.
var ErrCodec = errors.New("cache: not frames that this version can read")

// bits of an encoded head
const (
	headFailed = 1 << iota
	headEvents
)

// EncodeFrames gives frames as bytes, less what is never stored (Head.Own).
// The same frames always give the same bytes.
//
// The format: the version; the number of frames; for each its kind, the
// length of its payload, and its payload. Numbers are unsigned varints. A
// head's payload is its status, attempts, bits, reason, target, and its
// header, sorted: names with their values, each list preceded by its length.
// A bill's is its numbers in the order of Bill, then its texts; an error's the
// length of its head, the head and the data.
func EncodeFrames(frames []Frame) []byte {
	size := 8
	for i := range frames {
		size += encodedSize(&frames[i])
	}
	var head [512]byte
	b := append(make([]byte, 0, size), codecVersion)
	b = binary.AppendUvarint(b, uint64(len(frames)))
	for i := range frames {
		f := &frames[i]
		b = append(b, byte(f.Kind))
		switch f.Kind {
		case HeadFrame:
			b = appendBytes(b, appendHead(head[:0], f.Head))
		case BillFrame:
			b = appendBytes(b, appendBill(head[:0], f.Bill))
		case ErrorFrame:
			told := appendHead(head[:0], f.Head)
			b = binary.AppendUvarint(b, uint64(uvarintSize(len(told))+len(told)+len(f.Data)))
			b = append(appendBytes(b, told), f.Data...)
		default:
			b = appendBytes(b, f.Data)
		}
	}
	return b
}

// encodedSize is about what a frame takes, and no less as a rule: what is kept
// of it for long should be no larger than it must.
func encodedSize(f *Frame) int {
	n := len(f.Data) + 5
	if h := f.Head; h != nil {
		n += len(h.Reason) + len(h.Target) + 12
		for name, values := range h.Header {
			n += len(name) + 2
			for _, v := range values {
				n += len(v) + 2
			}
		}
	}
	if b := f.Bill; b != nil {
		n += len(b.Model) + len(b.Source) + len(b.Rates) + 48
	}
	return n
}

func uvarintSize(n int) int {
	return len(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), uint64(n)))
}

func appendHead(b []byte, h *Head) []byte {
	var bits byte
	if h.Failed {
		bits |= headFailed
	}
	if h.Events {
		bits |= headEvents
	}
	b = binary.AppendUvarint(b, uint64(h.Status))
	b = binary.AppendUvarint(b, uint64(h.Attempts))
	b = append(b, bits)
	b = appendBytes(b, h.Reason)
	b = appendBytes(b, h.Target)
	names := make([]string, 0, 16)
	for name := range h.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendBytes(b, name)
		values := h.Header[name]
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, v := range values {
			b = appendBytes(b, v)
		}
	}
	return b
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeFrames reads what EncodeFrames wrote. The frames' data are parts of
// b, which must not be changed afterwards. Any error is ErrCodec.
func DecodeFrames(b []byte) ([]Frame, error) {
	if len(b) == 0 || b[0] != codecVersion {
		return nil, fmt.Errorf("%w: no version %d", ErrCodec, codecVersion)
	}
	d := decoder{rest: b[1:]}
	frames := make([]Frame, 0, d.count(2))
	for range cap(frames) {
		f := Frame{Kind: FrameKind(d.byte())}
		payload := d.bytes()
		switch {
		case d.bad:
		case f.Kind == HeadFrame:
			if f.Head = decodeHead(payload); f.Head == nil {
				d.bad = true
			}
		case f.Kind == BillFrame:
			if f.Bill = decodeBill(payload); f.Bill == nil {
				d.bad = true
			}
		case f.Kind == ErrorFrame:
			told := decoder{rest: payload}
			if f.Head = decodeHead(told.bytes()); f.Head == nil || told.bad {
				d.bad = true
			}
			f.Data = told.rest
		case f.Kind > HeadFrame && f.Kind < ErrorFrame:
			f.Data = payload
		default:
			d.bad = true
		}
		if d.bad {
			break
		}
		frames = append(frames, f)
	}
	if d.bad || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: damaged at frame %d", ErrCodec, len(frames))
	}
	return frames, nil
}

func decodeHead(b []byte) *Head {
	d := decoder{rest: b}
	h := &Head{Status: d.int(), Attempts: d.int()}
	bits := d.byte()
	h.Failed, h.Events = bits&headFailed != 0, bits&headEvents != 0
	h.Reason, h.Target = string(d.bytes()), string(d.bytes())
	names := d.count(2)
	if names > 0 {
		h.Header = make(map[string][]string, names)
	}
	for range names {
		name := string(d.bytes())
		values := make([]string, d.count(1))
		for i := range values {
			values[i] = string(d.bytes())
		}
		if d.bad {
			return nil
		}
		h.Header[name] = values
	}
	if d.bad || len(d.rest) > 0 || bits&^(headFailed|headEvents) != 0 {
		return nil
	}
	return h
}

// decoder takes values off the front of rest. After the first that is not
// there it is bad and gives zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || d.bad {
		d.rest, d.bad = nil, true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// int takes a small number: none here is beyond a million.
func (d *decoder) int() int {
	v := d.uint()
	if v > 1e6 {
		d.rest, d.bad = nil, true
		return 0
	}
	return int(v)
}

// count takes the number of things of at least least bytes each that follow,
// so that a damaged number can't ask for more memory than the input has.
func (d *decoder) count(least int) int {
	v := d.uint()
	if v > uint64(len(d.rest)/least) {
		d.rest, d.bad = nil, true
		return 0
	}
	return int(v)
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}
