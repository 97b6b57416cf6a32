package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawName(t *rapid.T) string {
	return rapid.OneOf(rapid.Just(""), rapid.StringN(-1, -1, MostName), rapid.SampledFrom([]string{"m", "openai/gpt-4o", "chat", strings.Repeat("\x00é", 80)})).Draw(t, "name")
}

func drawDuration(t *rapid.T) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, math.MaxInt64/1000-1)).Draw(t, "us")) * time.Microsecond
}

func drawRequest(t *rapid.T) (r Request) {
	for _, name := range r.names() {
		*name = drawName(t)
	}
	small := rapid.IntRange(0, 1e6)
	r.At = time.UnixMicro(rapid.OneOf(rapid.Int64Range(0, 1<<62-1), rapid.Int64Range(1_790_000_000_000_000, 1_790_000_010_000_000)).Draw(t, "at"))
	r.ID = drawName(t)
	copy(r.Record[:], rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "record"))
	r.Status, r.Attempts, r.Left = small.Draw(t, "status"), small.Draw(t, "attempts"), rapid.Bool().Draw(t, "left")
	r.Took, r.Upstream, r.Overhead = drawDuration(t), drawDuration(t), drawDuration(t)
	if rapid.Bool().Draw(t, "tokens") {
		r.Tokens = Tokens{true, rapid.Int64Min(0).Draw(t, "input"), rapid.Int64Min(0).Draw(t, "output"), rapid.Int64Min(0).Draw(t, "cached")}
	}
	for _, a := range [...]*Amount{&r.Billed, &r.Saved} {
		if rapid.Bool().Draw(t, "known") {
			*a = Amount{Money{rapid.Int64Min(0).Draw(t, "dollars"), rapid.Int64Range(0, picos-1).Draw(t, "picos")}, true}
		}
	}
	for range rapid.OneOf(rapid.IntRange(0, 4), rapid.Just(MostMoments)).Draw(t, "moments") {
		m := Moment{At: drawDuration(t), What: Happening(rapid.IntRange(0, int(happenings)-1).Draw(t, "what")),
			Target: rapid.OneOf(rapid.Just(r.Target), rapid.Just("up/m")).Draw(t, "target"), Status: small.Draw(t, "status"), Result: drawName(t),
			For: drawDuration(t), Of: drawDuration(t), Fence: Fence(rapid.Uint64().Draw(t, "fence"))}
		r.Timeline = append(r.Timeline, m)
	}
	return r
}

// sameRequest compares but for the zone of At.
func sameRequest(a, b Request) bool {
	at := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return at && reflect.DeepEqual(a, b)
}

func TestRequestsComeBackFromRowsAndBlocks(t *testing.T) {
	var blocks Blocks
	rapid.Check(t, func(t *rapid.T) {
		var rows, again Rows
		var want []Request
		for range rapid.IntRange(1, 9).Draw(t, "requests") {
			r := drawRequest(t)
			want = append(want, r)
			rows.Add(&r)
		}
		for i := range rows.Len() {
			if err := again.AddRow(rows.Row(i)); err != nil {
				t.Fatal(err)
			}
		}
		b, err := blocks.Encode(&again, 77)
		if err != nil {
			t.Fatal(err)
		}
		h, err := DecodeBlockHead(b)
		if err != nil || h.First != 77 || h.Count != len(want) || h.Size() != len(b) {
			t.Fatalf("the head is %+v of %d bytes, %v", h, len(b), err)
		}
		below := rapid.IntRange(0, len(want)+1).Draw(t, "below")
		enough := rapid.IntRange(1, len(want)+1).Draw(t, "enough")
		for where, search := range map[string]func(func(int, *Request) bool) error{
			"rows":    func(give func(int, *Request) bool) error { return rows.Search(&RequestFilter{}, below, give) },
			"a block": func(give func(int, *Request) bool) error { return blocks.Search(b, &RequestFilter{}, below, give) },
		} {
			next := min(below, len(want))
			last := max(next-enough, 0)
			if err := search(func(i int, r *Request) bool {
				if next--; i != next || !sameRequest(*r, want[i]) {
					t.Fatalf("%s: request %d, want %d:\n%+v became\n%+v", where, i, next, want[next], r)
				}
				return i > last
			}); err != nil || next != last {
				t.Fatalf("%s: came to %d, want %d, %v", where, next, last, err)
			}
		}
	})
}

// Rows that were copied stay as they were, and share no bytes with what is added.
func TestRowsAreOnlyAddedTo(t *testing.T) {
	var rows Rows
	var copies []Rows
	for i := range 100 {
		rows.Add(&Request{ID: strings.Repeat("x", i)})
		copies = append(copies, rows)
	}
	for n := range copies {
		count := 0
		if err := copies[n].Search(&RequestFilter{}, math.MaxInt, func(i int, r *Request) bool {
			if len(r.ID) != i {
				t.Errorf("copy %d: request %d is %q", n, i, r.ID)
			}
			count++
			return true
		}); err != nil || count != n+1 {
			t.Fatalf("copy %d has %d, %v", n, count, err)
		}
	}
}

func TestBlocksAreFull(t *testing.T) {
	var rows Rows
	r := Request{ID: "x"}
	for n := 1; ; n++ {
		if rows.Add(&r); rows.Full() {
			if n != BlockRequests {
				t.Errorf("a block is full at %d", n)
			}
			break
		}
	}
	rows = rows.Emptied()
	r.Timeline = slices.Repeat([]Moment{{What: WasTried, Target: strings.Repeat("t", MostName), Result: strings.Repeat("r", MostName)}}, MostMoments)
	for !rows.Full() {
		rows.Add(&r)
	}
	if rows.Len() > 10 || rows.Size() > BlockBytes+64<<10 {
		t.Errorf("a block of %d is %d bytes", rows.Len(), rows.Size())
	}
}

// Whatever is wrong with a block is found, and nothing of it is given.
func TestDamagedBlocksAreRefused(t *testing.T) {
	var blocks Blocks
	var rows Rows
	for i := range 50 {
		rows.Add(&Request{At: time.UnixMicro(int64(i)), ID: "x", Series: Series{Model: strings.Repeat("m", i)}})
	}
	b, err := blocks.Encode(&rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	search := func(b []byte) error {
		return blocks.Search(b, &RequestFilter{}, 50, func(int, *Request) bool { t.Error("it gave one"); return true })
	}
	for n := range b {
		if err := search(b[:n]); !errors.Is(err, ErrCodec) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		bad := slices.Clone(b)
		bad[n] ^= 0x10
		if err := search(bad); !errors.Is(err, ErrCodec) {
			t.Fatalf("damaged at %d: %v", n, err)
		}
	}
	if err := search(append(slices.Clone(b), 0)); !errors.Is(err, ErrCodec) {
		t.Errorf("with a byte behind: %v", err)
	}
	if _, err := blocks.Encode(new(Rows), 1); err == nil {
		t.Error("a block of nothing")
	}
}

// TestMarks: what is in a block is always found, and what is not seldom costs more
// than its head.
func TestMarks(t *testing.T) {
	m := newMarks(BlockRequests)
	key := func(n int) (k Key) {
		for i := range k {
			k[i] = byte(hashOf([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(i)}))
		}
		return k
	}
	note := func(n int) {
		r := Request{ID: "req_" + keyHex(key(n)), Record: key(n + 1000)}
		d := decoder{rest: appendDetails(nil, &r)}
		m.note(&d)
	}
	for n := range BlockRequests {
		note(n)
	}
	wrong := 0
	const probes = 5000
	for n := range probes {
		in := n < BlockRequests
		for _, f := range []Find{{ID: "req_" + keyHex(key(n))}, {Record: keyHex(key(n + 1000))}, {Record: keyHex(key(n + 1000))[:8]}, {Keys: []Key{{}, key(n + 1000)}}} {
			if may := m.mayHave(&f); in && !may {
				t.Fatalf("%+v is missed", f)
			} else if !in && n > 5*BlockRequests && may {
				wrong++
			}
		}
	}
	if share := float64(wrong) / (4 * (probes - 5*BlockRequests)); share > 0.06 {
		t.Errorf("%.1f%% are looked for in vain", 100*share)
	}
	if !m.mayHave(&Find{Record: "0"}) || m.mayHave(&Find{Record: "not hex digits"}) || !m.mayHave(&Find{}) {
		t.Error("a short beginning, none, or anything")
	}
}

func keyHex(k Key) (s string) {
	for _, c := range k {
		s += string([]byte{hexDigits[c>>4], hexDigits[c&15]})
	}
	return s
}

func FuzzDecodeRequest(f *testing.F) {
	var rows Rows
	rows.Add(&Request{})
	rows.Add(&Request{At: time.UnixMicro(1e15), ID: "x", Series: Series{Model: "m"}, Record: Key{1}, Tokens: Tokens{true, 1, 2, 3}, Billed: Amount{Money{1, 2}, true},
		Timeline: []Moment{{What: WasTried, Target: "t", Status: 503, Result: "503", For: time.Second, Of: time.Second, Fence: 7}}})
	f.Add(rows.Row(0))
	f.Add(rows.Row(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRow(b)
		if err != nil {
			if !errors.Is(err, ErrCodec) {
				t.Fatal(err)
			}
			return
		}
		again, err := decodeRow(appendRow(nil, &r))
		// A text of a kind that is never written may be longer than one that is kept.
		if err != nil || len(b) < MostName && !sameRequest(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzSearchBlock has the sums of a block right and its parts wrong.
func FuzzSearchBlock(f *testing.F) {
	var blocks Blocks
	var rows Rows
	rows.Add(&Request{At: time.UnixMicro(5), ID: "x", Series: Series{Model: "m"}, Record: Key{1}})
	rows.Add(&Request{At: time.UnixMicro(9), ID: "y", Timeline: []Moment{{What: WasTried}}})
	b, err := blocks.Encode(&rows, 1)
	if err != nil {
		f.Fatal(err)
	}
	h, err := DecodeBlockHead(b)
	if err != nil {
		f.Fatal(err)
	}
	packed := b[blockHead+h.marks:]
	table, err := blocks.unpack(nil, packed[:h.columns])
	if err != nil {
		f.Fatal(err)
	}
	details, err := blocks.unpack(nil, packed[h.columns:h.columns+h.details])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(2, table, details)
	f.Add(3, table, details)
	f.Add(1, table[:20], details)
	f.Fuzz(func(t *testing.T, count int, table, details []byte) {
		h := BlockHead{Count: max(count, 1), marks: 8, Oldest: time.UnixMicro(5), Newest: time.UnixMicro(9)}
		b := make([]byte, blockHead+h.marks)
		b = blocks.pack(b, table)
		h.columns = len(b) - blockHead - h.marks
		b = blocks.pack(b, details)
		h.details = len(b) - blockHead - h.marks - h.columns
		h.put(b)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[blockHead:], castagnoli))
		n := 0
		err := blocks.Search(b, &RequestFilter{}, math.MaxInt, func(i int, r *Request) bool {
			n++
			return true
		})
		if err != nil && !errors.Is(err, ErrCodec) || n > h.Count {
			t.Fatalf("%d requests, %v", n, err)
		}
	})
}
