package local

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"oncegate/cache"
)

// A journal is entries one after the other. Numbers are big-endian, the sum
// is CRC-32C of what stands before it.
//
//	begin: 'B' id:8 key:32 fence:8 started:8 length:1 target sum:4
//	end:   'E' id:8 sum:4
//
// started is in nanoseconds since 1970.
const (
	beginMark = 'B'
	endMark   = 'E'
	beginSize = 1 + 8 + 32 + 8 + 8 + 1 // less the target and the sum
	endSize   = 1 + 8
	sumSize   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendSum(b []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// appendBegin appends an attempt. A target beyond 255 bytes is cut.
func appendBegin(b []byte, id uint64, a *cache.Attempt) []byte {
	from := len(b)
	b = append(b, beginMark)
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, a.Key[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(a.Fence))
	b = binary.BigEndian.AppendUint64(b, uint64(a.Started.UnixNano()))
	target := a.Target[:min(len(a.Target), 255)]
	b = append(b, byte(len(target)))
	b = append(b, target...)
	return appendSum(b, from)
}

func appendEnd(b []byte, id uint64) []byte {
	from := len(b)
	b = append(b, endMark)
	b = binary.BigEndian.AppendUint64(b, id)
	return appendSum(b, from)
}

// parseJournal calls begin and end for the entries of b, and gives how many
// bytes they take. What comes after them was torn by a crash: nothing that
// follows a torn entry was ever written after it.
func parseJournal(b []byte, begin func(id uint64, a cache.Attempt), end func(id uint64)) int {
	done := 0
	for {
		rest := b[done:]
		if len(rest) == 0 {
			return done
		}
		size := endSize
		if rest[0] == beginMark {
			if len(rest) < beginSize {
				return done
			}
			size = beginSize + int(rest[beginSize-1])
		} else if rest[0] != endMark {
			return done
		}
		if len(rest) < size+sumSize || crc32.Checksum(rest[:size], castagnoli) != binary.BigEndian.Uint32(rest[size:]) {
			return done
		}
		id := binary.BigEndian.Uint64(rest[1:])
		if rest[0] == endMark {
			end(id)
		} else {
			a := cache.Attempt{
				Fence:   cache.Fence(binary.BigEndian.Uint64(rest[41:])),
				Started: time.Unix(0, int64(binary.BigEndian.Uint64(rest[49:]))),
				Target:  string(rest[beginSize:size]),
			}
			copy(a.Key[:], rest[9:])
			begin(id, a)
		}
		done += size + sumSize
	}
}
