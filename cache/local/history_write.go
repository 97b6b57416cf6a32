package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"oncegate/cache"
)

// work writes what is logged: blocks at once, the tail within tailEvery.
func (h *history) work() {
	defer close(h.finished)
	for {
		select {
		case <-h.begun:
		case <-h.filled:
		case <-h.quit:
			h.write()
			return
		}
		h.report(h.writeBlocks())
		for due := time.NewTimer(tailEvery); due != nil; {
			select {
			case <-due.C:
				due = nil
			case <-h.filled:
				h.report(h.writeBlocks())
			case <-h.quit:
				due.Stop()
				h.write()
				return
			}
		}
		if h.write() != nil {
			signal(h.begun) // it is tried again
		}
	}
}

// write writes all there is.
func (h *history) write() error {
	err := errors.Join(h.writeBlocks(), h.writeTail())
	h.report(err)
	return err
}

// report tells of trouble when it begins, and of requests that were left out.
func (h *history) report(err error) {
	if h.trouble.first(err) {
		h.oops("requests", fmt.Errorf("the latest requests are in memory only: %w", err))
	}
	h.mu.Lock()
	missed := h.missed
	h.mu.Unlock()
	if now := h.now(); missed > h.told && now.Sub(h.toldAt) >= missedEvery {
		h.oops("requests", fmt.Errorf("%d requests came faster than they could be written, and are not in the log of requests", missed-h.told))
		h.told, h.toldAt = missed, now
	}
}

// writeBlocks makes blocks of the rows that are enough for one. Those that
// can't be written wait.
func (h *history) writeBlocks() error {
	for {
		h.mu.Lock()
		var rows cache.Rows
		var first uint64
		if len(h.full) > 0 {
			rows, first = h.full[0].rows, h.full[0].first
		}
		h.mu.Unlock()
		if rows.Len() == 0 {
			return nil
		}
		b, err := h.blocks.Encode(&rows, first)
		if err == nil {
			err = h.lastSegment(first).append(b)
		}
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.full = h.full[1:]
		h.mu.Unlock()
	}
}

// lastSegment is where a block goes whose first request has this number. With
// each segment that is begun, those go that are too old, or too much.
func (h *history) lastSegment(first uint64) *segment {
	now := h.now()
	h.mu.Lock()
	if n := len(h.segments); n > 0 && h.segments[n-1].takes(h.room, now) {
		defer h.mu.Unlock()
		return h.segments[n-1]
	}
	s := segmentOf(h.dir, first)
	s.known = true
	h.segments = append(h.segments, s)
	kept, left := len(h.segments)-1, h.most
	for ; kept > 0; kept-- {
		before := h.segments[kept-1]
		if left -= before.bytes(); left < 0 || before.unchangedFor(now) > keepRequests {
			break
		}
	}
	gone := h.segments[:kept]
	h.segments = h.segments[kept:]
	h.mu.Unlock()
	for _, s := range gone {
		if err := os.Remove(s.name); err != nil {
			h.oops("requests", fmt.Errorf("remove what is too old: %w", err))
		}
	}
	return s
}

// The tail is rows, one after the other: the length of a row, 4 bytes; the
// request's number, 8; the row; the CRC-32C of all three, 4. Numbers are
// big-endian. What comes after a damaged one was torn by a crash.

const (
	tailName = "requests.tail"
	tailHead = 12
)

// writeTail writes the rows that are in no block and not in the tail yet.
func (h *history) writeTail() error {
	h.mu.Lock()
	rows, first, waiting := h.rows, h.first, len(h.full)
	h.mu.Unlock()
	if waiting > 0 { // they would go from the tail before they are in a block
		return nil
	}
	at, from := h.tailed, int(max(h.upTo, first)-first)
	if h.upTo < first || at == 0 { // those in it are in a block now
		at, from = 0, 0
	}
	var b []byte
	for i := from; i < rows.Len(); i++ {
		b = appendTail(b, first+uint64(i), rows.Row(i))
	}
	if len(b) == 0 && at == h.tailed {
		return nil
	}
	if at == 0 {
		if err := h.newTail(b); err != nil {
			return err
		}
	} else if _, err := h.tail.WriteAt(b, at); err != nil {
		return err
	}
	h.tailed, h.upTo = at+int64(len(b)), first+uint64(rows.Len())
	return nil
}

// newTail puts one in the place of the one that is there, so that a kill leaves
// either.
func (h *history) newTail(b []byte) error {
	name := filepath.Join(h.dir, tailName)
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	before := h.tail
	h.tail = f
	return before.Close()
}

func appendTail(b []byte, number uint64, row []byte) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(row)))
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, row...)
	return appendSum(b, from)
}

// parseTail gives the rows, and how many bytes they are.
func parseTail(b []byte, row func(number uint64, row []byte)) (all int64) {
	for len(b) >= tailHead+sumSize {
		size := uint64(binary.BigEndian.Uint32(b))
		if size > uint64(len(b)-tailHead-sumSize) ||
			crc32.Checksum(b[:tailHead+size], castagnoli) != binary.BigEndian.Uint32(b[tailHead+size:]) {
			break
		}
		row(binary.BigEndian.Uint64(b[4:]), b[tailHead:tailHead+size])
		all += int64(tailHead + size + sumSize)
		b = b[tailHead+size+sumSize:]
	}
	return all
}

// close writes what there is, and lets go of the files.
func (h *history) close() error {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	close(h.quit)
	<-h.finished
	return h.tail.Close()
}
