package local

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"oncegate/cache"
)

// daybookBytes is how large a daybook grows before the next is begun.
const daybookBytes = 4 << 20

// daybook is a file to which each line of the ledger is appended as it comes,
// until it is posted to the buckets in the database: so that a kill loses
// none, and no line waits for the disk. It is memory that the kernel writes
// back, as the attempts' journal is.
//
// Its entries stand one after the other: the length of a line, 4 bytes; the
// line, as cache.AppendSum has it; the CRC-32C of both, 4 bytes. Numbers are
// big-endian. A length of zero is the end.
type daybook struct {
	number uint64
	name   string
	file   *os.File // nil: of a dead process
	mem    []byte   // the file's memory; nil: it is written to
	size   int64
	torn   bool // a write failed midway, and what follows could not be read
}

const (
	daybookPrefix = "ledger-"
	daybookSuffix = ".daybook"
)

func daybookName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%012d%s", daybookPrefix, n, daybookSuffix))
}

// daybooks gives the numbers of the daybooks that are there, in order.
func daybooks(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), daybookPrefix)
		digits, isOne := strings.CutSuffix(digits, daybookSuffix)
		if n, err := strconv.ParseUint(digits, 10, 64); ok && isOne && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func beginDaybook(dir string, n uint64, room int64) (*daybook, error) {
	name := daybookName(dir, n)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a daybook of the ledger: %w", err)
	}
	return &daybook{number: n, name: name, file: f, mem: mapSegment(f, room)}, nil
}

// append adds an entry, whole or not at all.
func (d *daybook) append(entry []byte) error {
	if d.mem != nil {
		if int64(len(d.mem))-d.size >= int64(len(entry)) {
			copy(d.mem[d.size:], entry)
			d.size += int64(len(entry))
			return nil
		}
		// Past its end, as where a next one could not be begun: the file goes on.
		unmapSegment(d.mem)
		d.mem = nil
	}
	if d.torn {
		if err := d.file.Truncate(d.size); err != nil {
			return err
		}
		d.torn = false
	}
	if _, err := d.file.WriteAt(entry, d.size); err != nil {
		d.torn = d.file.Truncate(d.size) != nil
		return err
	}
	d.size += int64(len(entry))
	return nil
}

func (d *daybook) close() error {
	unmapSegment(d.mem)
	d.mem = nil
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// appendEntry appends a line as an entry.
func appendEntry(b []byte, l *cache.Line) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	b = cache.AppendSum(b, l.Minute(), &l.Series, &l.Figures)
	binary.BigEndian.PutUint32(b[from:], uint32(len(b)-from-4))
	return appendSum(b, from)
}

// parseDaybook calls line for the entries of b, and gives how many bytes they
// take. What comes after them was torn by a crash.
func parseDaybook(b []byte, line func(sum []byte)) int {
	done := 0
	for {
		rest := b[done:]
		if len(rest) < 4 {
			return done
		}
		size := uint64(binary.BigEndian.Uint32(rest))
		if size == 0 || size > uint64(len(rest)) || uint64(len(rest)) < 4+size+sumSize ||
			crc32.Checksum(rest[:4+size], castagnoli) != binary.BigEndian.Uint32(rest[4+size:]) {
			return done
		}
		line(rest[4 : 4+size])
		done += int(4 + size + sumSize)
	}
}
