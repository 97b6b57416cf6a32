package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"oncegate/cache"
)

const (
	requestsPrefix = "requests-"
	requestsSuffix = ".blocks"
)

// segment is a file of the log of requests.
type segment struct {
	name  string
	first uint64 // number of its first request

	mu     sync.Mutex
	size   int64 // of what can be read
	known  bool  // blocks is what the file has
	blocks []block
}

// block is where one is, and what its head says.
type block struct {
	at   int64
	head cache.BlockHead
}

func segmentOf(dir string, first uint64) *segment {
	return &segment{name: filepath.Join(dir, fmt.Sprintf("%s%016d%s", requestsPrefix, first, requestsSuffix)), first: first}
}

// openSegments finds the segments that are there, in order.
func openSegments(dir string) ([]*segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*segment
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), requestsPrefix)
		digits, isOne := strings.CutSuffix(digits, requestsSuffix)
		first, err := strconv.ParseUint(digits, 10, 64)
		if !ok || !isOne || err != nil {
			continue
		}
		s := segmentOf(dir, first)
		if info, err := e.Info(); err == nil {
			s.size = info.Size()
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *segment) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// index reads the heads of the blocks, once. What follows a damaged head can't
// be found.
func (s *segment) index(f *os.File) error {
	if s.known {
		return nil
	}
	s.blocks = s.blocks[:0]
	var head [cache.BlockHeadSize]byte
	at := int64(0)
	for at < s.size {
		n, err := f.ReadAt(head[:], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		h, err := cache.DecodeBlockHead(head[:n])
		if err != nil || at+int64(h.Size()) > s.size {
			break
		}
		s.blocks = append(s.blocks, block{at, h})
		at += int64(h.Size())
	}
	s.size, s.known = at, true
	return nil
}

// mend cuts off what a crash tore of the last segment: its last block is whole.
func (s *segment) mend(blocks *cache.Blocks) error {
	f, err := os.OpenFile(s.name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.index(f); err != nil {
		return err
	}
	for len(s.blocks) > 0 {
		last := s.blocks[len(s.blocks)-1]
		b := make([]byte, last.head.Size())
		if _, err := f.ReadAt(b, last.at); err != nil {
			return err
		}
		if blocks.Search(b, &cache.RequestFilter{}, last.head.Count, func(int, *cache.Request) bool { return true }) == nil {
			break
		}
		s.blocks, s.size = s.blocks[:len(s.blocks)-1], last.at
	}
	return f.Truncate(s.size)
}

// next is the number behind its last one.
func (s *segment) next() uint64 {
	if len(s.blocks) == 0 {
		return s.first
	}
	h := s.blocks[len(s.blocks)-1].head
	return h.First + uint64(h.Count)
}

// append adds a block, whole or not at all.
func (s *segment) append(b []byte) error {
	head, err := cache.DecodeBlockHead(b)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	s.mu.Lock()
	at := s.size
	s.mu.Unlock()
	if _, err := f.WriteAt(b, at); err != nil {
		return errors.Join(err, f.Truncate(at))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		s.blocks = append(s.blocks, block{at, head})
	}
	s.size = at + int64(len(b))
	return nil
}

// takes says whether a further block goes here: it is not too large, and not of
// another day.
func (s *segment) takes(room int64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size < room && (len(s.blocks) == 0 || now.Sub(s.blocks[0].head.Oldest) < 24*time.Hour)
}

// unchangedFor is how long ago a block was added; zero: nobody knows.
func (s *segment) unchangedFor(now time.Time) time.Duration {
	info, err := os.Stat(s.name)
	if err != nil {
		return 0
	}
	return now.Sub(info.ModTime())
}

func (s *segment) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// search goes through its blocks from the last to the first. One that is gone
// has nothing.
func (s *segment) search(p *requestPage, codec *cache.Blocks, oops func(string, error)) error {
	f, err := os.Open(s.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", cache.ErrAway, err)
	}
	defer f.Close()
	s.mu.Lock()
	size := s.size
	err = s.index(f)
	blocks, torn := s.blocks, size-s.size
	s.mu.Unlock()
	if torn > 0 {
		oops("requests", fmt.Errorf("%s: the last %d bytes can't be read, and are left out", filepath.Base(s.name), torn))
	}
	if err != nil {
		return fmt.Errorf("%w: read the log of requests: %w", cache.ErrAway, err)
	}
	var buf []byte
	for n := len(blocks) - 1; n >= 0 && !p.passed(); n-- {
		at, h := blocks[n].at, &blocks[n].head
		if h.First >= p.below {
			continue
		}
		if p.filter.MayBeIn(h) {
			buf = slices.Grow(buf[:0], h.Size())[:h.Size()]
			if _, err := f.ReadAt(buf, at); err != nil {
				return fmt.Errorf("%w: read the log of requests: %w", cache.ErrAway, err)
			}
			if err := codec.Search(buf, p.filter, p.index(h.First), p.give(h.First)); err != nil {
				oops("requests", fmt.Errorf("%s: the block at %d is left out: %w", filepath.Base(s.name), at, err))
			}
		}
		if err := p.done(h.First); err != nil {
			return err
		}
	}
	return nil
}
