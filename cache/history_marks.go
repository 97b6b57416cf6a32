package cache

import (
	"encoding/hex"
	"math/bits"
)

// marks is a Bloom filter with a power of two of bytes: about one block of
// thirty is looked into for nothing.
type marks []byte

const keyMark = 4 // bytes of a key that are noted: what a search must say of it

func newMarks(count int) marks { return make(marks, max(8, 1<<bits.Len(uint(2*count-1)))) }

func (m marks) each(hash uint64, f func(at *byte, bit byte)) {
	for range 3 {
		n := hash % uint64(8*len(m))
		f(&m[n/8], 1<<(n%8))
		hash = bits.RotateLeft64(hash, 21)
	}
}

// note notes what the details begin with.
func (m marks) note(details *decoder) {
	id, record, d := details.about()
	set := func(at *byte, bit byte) { *at |= bit }
	if len(id) > 0 {
		m.each(hashOf(id), set)
	}
	if len(record) > 0 {
		m.each(hashOf(record[:keyMark]), set)
	}
	details.bad = details.bad || d.bad
}

// about is what details begin with: the id, and the record's key, if there is
// one.
func (d *decoder) about() (id, record []byte, rest decoder) {
	rest = *d
	bits := rest.byte()
	id = rest.bytes()
	if bits&requestRecord != 0 {
		record = rest.take(len(Key{}))
	}
	return id, record, rest
}

// findsIn is finds of a request's details.
func (f *Find) findsIn(details []byte) bool {
	if f.all() {
		return true
	}
	d := decoder{rest: details}
	id, record, rest := d.about()
	var key Key
	copy(key[:], record)
	return !rest.bad && f.finds(string(id), &key)
}

func (m marks) has(what []byte) bool {
	all := true
	m.each(hashOf(what), func(at *byte, bit byte) { all = all && *at&bit != 0 })
	return all
}

func (m marks) mayHave(f *Find) bool {
	if f.all() || f.ID != "" && m.has([]byte(f.ID)) {
		return true
	}
	for i := range f.Keys {
		if m.has(f.Keys[i][:keyMark]) {
			return true
		}
	}
	if f.Record == "" {
		return false
	}
	if len(f.Record) < 2*keyMark {
		return true
	}
	begins, err := hex.DecodeString(f.Record[:2*keyMark])
	return err == nil && m.has(begins)
}

// hashOf is FNV-1a with its bits mixed; it stands in files.
func hashOf(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
