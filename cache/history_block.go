package cache

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A block is up to BlockRequests requests, made to be searched without being
// read whole. Numbers of a fixed size are little-endian.
//
//	head      blockHead bytes: see BlockHead; the CRC-32C of the head's other bytes
//	marks     a Bloom filter of the ids and of how the records' keys begin
//	columns   compressed: the names, each once: how many, then each; then for each
//	          column of a row and each request two bytes, which name; then the
//	          times, 8 bytes each, in microseconds since the block's oldest; then
//	          where the details of each end, 4 bytes
//	details   compressed: as in a row
//	sum       CRC-32C of all that follows the head
//
// Who looks for names reads the columns, and the details of what they choose.

const (
	blockVersion = 0xb1
	blockHead    = 56
	blockSum     = 4

	// mostUnpacked bounds what a part of a block comes to when it is uncompressed.
	mostUnpacked = 8 << 20
)

// BlockHead is what the head of a block says.
type BlockHead struct {
	First          uint64 // as Encode was told
	Count          int
	Oldest, Newest time.Time // of the requests in it

	marks, columns, details int // bytes
}

// BlockHeadSize is how many bytes of a block DecodeBlockHead needs.
const BlockHeadSize = blockHead

// Size of the block in bytes.
func (h *BlockHead) Size() int { return blockHead + h.marks + h.columns + h.details + blockSum }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Blocks makes and searches blocks. The zero value works, for any number of
// goroutines.
type Blocks struct {
	packs, unpacks sync.Once
	packer         *zstd.Encoder
	unpacker       *zstd.Decoder
	tables         sync.Pool // of *[]byte: columns
	drafts         sync.Pool // of *draft
}

func (b *Blocks) pack(to, part []byte) []byte {
	b.packs.Do(func() {
		var err error
		b.packer, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // of the options
		}
	})
	return b.packer.EncodeAll(part, to)
}

func (b *Blocks) unpack(to, part []byte) ([]byte, error) {
	b.unpacks.Do(func() {
		var err error
		b.unpacker, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(mostUnpacked), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) // of the options
		}
	})
	return b.unpacker.DecodeAll(part, to)
}

// Encode makes a block of rows, of which there is at least one. first is for
// whoever reads the head.
func (b *Blocks) Encode(r *Rows, first uint64) ([]byte, error) {
	count := r.Len()
	if count == 0 || count > math.MaxUint16/columns {
		return nil, fmt.Errorf("cache: no block of %d requests", count)
	}
	t, _ := b.drafts.Get().(*draft)
	if t == nil {
		t = &draft{places: make(map[string]uint16, 64)}
	}
	defer b.drafts.Put(t)
	clear(t.places)
	var (
		places  = t.places
		names   = t.names[:0]
		which   = slices.Grow(t.which[:0], 2*columns*count)[:2*columns*count]
		times   = slices.Grow(t.times[:0], count)[:count]
		ends    = t.ends[:0]
		details = t.details[:0]
		m       = newMarks(count)
		oldest  = int64(math.MaxInt64)
		newest  = int64(0)
	)
	for i := range count {
		d := decoder{rest: r.Row(i)}
		for c := range columns {
			name := d.bytes()
			place, known := places[string(name)]
			if !known {
				place = uint16(len(places))
				places[string(name)] = place
				names = appendBytes(names, name)
			}
			binary.LittleEndian.PutUint16(which[2*(c*count+i):], place)
		}
		times[i] = d.at().UnixMicro()
		oldest, newest = min(oldest, times[i]), max(newest, times[i])
		details = append(details, d.rest...)
		ends = binary.LittleEndian.AppendUint32(ends, uint32(len(details)))
		m.note(&d)
		if d.bad {
			return nil, fmt.Errorf("%w: damaged request %d", ErrCodec, i)
		}
	}
	table := binary.AppendUvarint(t.table[:0], uint64(len(places)))
	table = append(append(table, names...), which...)
	for _, at := range times {
		table = binary.LittleEndian.AppendUint64(table, uint64(at-oldest))
	}
	table = append(table, ends...)
	t.names, t.which, t.times, t.ends, t.details, t.table = names, which, times, ends, details, table

	out := make([]byte, blockHead, blockHead+len(m)+len(table)/4+len(details)/2)
	out = append(out, m...)
	marked := len(out)
	out = b.pack(out, table)
	tabled := len(out)
	out = b.pack(out, details)
	h := BlockHead{First: first, Count: count, marks: len(m), columns: tabled - marked, details: len(out) - tabled,
		Oldest: time.UnixMicro(oldest), Newest: time.UnixMicro(newest)}
	h.put(out)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out[blockHead:], castagnoli)), nil
}

// draft is what a block is made in.
type draft struct {
	places                             map[string]uint16 // of names
	names, which, ends, details, table []byte
	times                              []int64
}

func (h *BlockHead) put(b []byte) {
	le := binary.LittleEndian
	b[0] = blockVersion
	le.PutUint64(b[4:], h.First)
	le.PutUint64(b[12:], uint64(h.Oldest.UnixMicro()))
	le.PutUint64(b[20:], uint64(h.Newest.UnixMicro()))
	le.PutUint32(b[28:], uint32(h.Count))
	le.PutUint32(b[32:], uint32(h.marks))
	le.PutUint32(b[36:], uint32(h.columns))
	le.PutUint32(b[40:], uint32(h.details))
	le.PutUint32(b[blockHead-4:], crc32.Checksum(b[:blockHead-4], castagnoli))
}

// DecodeBlockHead reads the head that b begins with. An error is ErrCodec: it
// is damaged, or one of a newer version.
func DecodeBlockHead(b []byte) (h BlockHead, err error) {
	le := binary.LittleEndian
	if len(b) < blockHead || b[0] != blockVersion || le.Uint32(b[blockHead-4:]) != crc32.Checksum(b[:blockHead-4], castagnoli) {
		return h, fmt.Errorf("%w: no head of a block", ErrCodec)
	}
	h = BlockHead{
		First: le.Uint64(b[4:]), Count: int(le.Uint32(b[28:])),
		Oldest: time.UnixMicro(int64(le.Uint64(b[12:]))), Newest: time.UnixMicro(int64(le.Uint64(b[20:]))),
		marks: int(le.Uint32(b[32:])), columns: int(le.Uint32(b[36:])), details: int(le.Uint32(b[40:])),
	}
	const most = mostUnpacked + 1<<16
	if h.Count < 1 || h.Count > math.MaxUint16/columns || h.marks > most || h.columns > most || h.details > most ||
		h.marks < 1 || h.marks&(h.marks-1) != 0 || h.Newest.Before(h.Oldest) {
		return h, fmt.Errorf("%w: a block of %d requests and %d bytes", ErrCodec, h.Count, h.Size())
	}
	return h, nil
}

// Search is Rows.Search of the requests in a block. Any error is ErrCodec.
func (b *Blocks) Search(block []byte, f *RequestFilter, below int, give func(i int, r *Request) (more bool)) error {
	h, err := DecodeBlockHead(block)
	if err != nil {
		return err
	}
	if len(block) != h.Size() {
		return fmt.Errorf("%w: a block of %d bytes has %d", ErrCodec, h.Size(), len(block))
	}
	if !f.MayBeIn(&h) {
		return nil
	}
	rest, sum := block[blockHead:len(block)-blockSum], block[len(block)-blockSum:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(rest, castagnoli) {
		return fmt.Errorf("%w: a damaged block", ErrCodec)
	}
	marked, rest := marks(rest[:h.marks]), rest[h.marks:]
	if !marked.mayHave(&f.Find) {
		return nil
	}
	buf, _ := b.tables.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer b.tables.Put(buf)
	if *buf, err = b.unpack((*buf)[:0], rest[:h.columns]); err != nil {
		return fmt.Errorf("%w: the columns of a block: %w", ErrCodec, err)
	}
	var t table
	if err := t.read(*buf, &h); err != nil {
		return err
	}
	want, may := t.wants(f)
	if !may {
		return nil
	}
	var details []byte
	for i := min(below, h.Count) - 1; i >= 0; i-- {
		if !t.has(i, &want) || !f.hasTime(t.at(i)) {
			continue
		}
		if details == nil {
			if details, err = b.unpack(make([]byte, 0, 32<<10), rest[h.columns:]); err != nil {
				return fmt.Errorf("%w: the details of a block: %w", ErrCodec, err)
			}
		}
		own, err := t.details(i, details)
		if err != nil {
			return err
		}
		if !f.Find.findsIn(own) {
			continue
		}
		var r Request
		if err := t.request(i, own, &r); err != nil {
			return err
		}
		if !give(i, &r) {
			break
		}
	}
	return nil
}

// MayBeIn says whether some of a block's requests are of the filter's time.
func (f *RequestFilter) MayBeIn(h *BlockHead) bool {
	return (f.Since.IsZero() || !h.Newest.Before(f.Since)) && (f.Until.IsZero() || h.Oldest.Before(f.Until))
}

func (f *RequestFilter) hasTime(at time.Time) bool {
	return (f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until))
}
