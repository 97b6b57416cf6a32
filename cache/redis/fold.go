package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"oncegate/cache"
)

const (
	// folderFor is how long a node folds before another may, should it die.
	folderFor = 5 * time.Second
	// foldElements of each tail are folded at once, and about foldSums in all:
	// no script holds up the others for more than some milliseconds.
	foldElements = 128
	foldSums     = 1000
)

// unfolded is what one pass reads and takes of a shard's.
type unfolded struct {
	shard    int
	was      string // how far it is folded: epoch and position, or nothing
	epoch    string
	first    int64 // position of the first element
	elements []any
	taken    int
}

// fold adds what the tails have to the buckets of all levels, until they are
// empty. What can't be reached now is folded another time.
//
// A pass reads how far each shard is folded, the elements from there on and the
// sums that they add to, adds here, where numbers are exact, and writes by a
// script that does nothing if another pass was faster. Only the next pass takes
// the elements off the tail: by then the sums are on a replica too, if any.
func (l *ledger) fold(ctx context.Context, whoever bool) error {
	for {
		more, err := l.pass(whoever)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.quit:
			return errClosed
		default:
		}
	}
}

func (l *ledger) pass(whoever bool) (more bool, err error) {
	folded, mine, err := l.folded(whoever)
	if err != nil || !mine {
		return false, err
	}
	tails, unreached := l.peek(folded)
	if len(tails) == 0 {
		return false, unreached
	}
	var sums cache.Tally
	for i := range tails {
		more = l.take(&tails[i], &sums) || more
	}
	buckets := l.buckets(&sums)
	if err := l.add(buckets); err != nil {
		return false, err
	}
	first, err := l.write(tails, buckets)
	return more || !first, errors.Join(unreached, err)
}

// folded is how far each shard is, and whether it is this node that folds.
func (l *ledger) folded(whoever bool) (far [tags]string, mine bool, err error) {
	reply, err := l.s.do(turnScript, ledgerTag, []string{folderName, foldedName}, l.s.node, millis(folderFor), flag(whoever))
	if err != nil {
		return far, false, err
	}
	if reply[0] == "other" {
		l.folds = false
		return far, false, nil
	}
	l.folds = l.folds || !whoever
	if len(reply) < 2 {
		return far, false, malformed(turnScript, reply)
	}
	pairs, _ := reply[1].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		shard, _ := pairs[i].(string)
		if t, err := strconv.Atoi(shard); err == nil && t >= 0 && t < tags {
			far[t], _ = pairs[i+1].(string)
		}
	}
	return far, true, nil
}

// peek gives the tails that have elements beyond how far they are folded.
func (l *ledger) peek(folded [tags]string) (tails []unfolded, err error) {
	fresh := make([]byte, 8)
	rand.Read(fresh)
	for _, group := range l.groups() {
		var keys []string
		args := []any{foldElements, hex.EncodeToString(fresh)}
		for _, t := range group {
			keys = append(keys, tailName(t), headName(t))
			args = append(args, folded[t])
		}
		reply, failed := l.s.do(peekScript, group[0], keys, args...)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		for n, t := range group {
			f := unfolded{shard: t, was: folded[t]}
			if n >= len(reply) || !f.read(reply[n]) {
				return nil, malformed(peekScript, reply)
			}
			if len(f.elements) > 0 {
				tails = append(tails, f)
			}
		}
	}
	return tails, err
}

// groups are the shards that one script may touch.
func (l *ledger) groups() (all [][]int) {
	for t := range tags {
		if l.s.client.cluster != nil || t == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], t)
	}
	return all
}

func (f *unfolded) read(reply any) bool {
	list, _ := reply.([]any)
	if len(list) < 3 {
		return false
	}
	epoch, one := list[0].(string)
	first, two := list[1].(string)
	elements, three := list[2].([]any)
	at, err := strconv.ParseInt(first, 10, 64)
	f.epoch, f.first, f.elements = epoch, at, elements
	return one && two && three && err == nil
}

// take adds a tail's elements to sums. Some may be left for another pass.
func (l *ledger) take(f *unfolded, sums *cache.Tally) (more bool) {
	for _, e := range f.elements {
		if sums.Len() >= foldSums {
			return true
		}
		text, _ := e.(string)
		err := cache.DecodeSums([]byte(text), func(minute int64, s *cache.Series, f *cache.Figures) {
			l.s.oops("ledger", sums.AddTo(minute, s, f))
		})
		if err != nil {
			l.s.oops("ledger", fmt.Errorf("%d bytes of shard %d are dropped: %w", len(text), f.shard, err))
		}
		f.taken++
	}
	return len(f.elements) == foldElements
}
