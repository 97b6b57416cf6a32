package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"oncegate/cache"
)

// Doubts counts what is unknown, each server's by itself. What has lapsed by now
// counts.
func (s *Store) Doubts(ctx context.Context) (map[string]int64, error) {
	if err := s.lapse(ctx); err != nil {
		return nil, err
	}
	all := make(map[string]int64)
	for _, group := range s.ledger.groups() {
		var keys []string
		for _, t := range group {
			keys = append(keys, writeNames[t][doubtsOfTools])
		}
		reply, err := s.do(doubtsScript, group[0], keys)
		if err != nil {
			return nil, err
		}
		for _, shard := range reply {
			pairs := fieldsOf(shard)
			for ; len(pairs) > 1; pairs = pairs[2:] {
				n, err := strconv.ParseInt(pairs[1], 10, 64)
				if err != nil {
					return nil, malformed(doubtsScript, reply)
				}
				all[pairs[0]] += n
			}
		}
	}
	return all, nil
}

// lapse makes unknown all whose leases have lapsed.
func (s *Store) lapse(ctx context.Context) error {
	for {
		more, err := s.tidy(inflightWrites)
		if err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// sweepWrites does what is due with records that nobody asks for.
func (s *Store) sweepWrites() error {
	_, lapsed := s.tidy(inflightWrites)
	_, ended := s.tidy(endsOfWrites)
	return errors.Join(lapsed, ended)
}

// tidy does what is due in an index, some of each shard. more: there may be more.
func (s *Store) tidy(index int) (more bool, err error) {
	for _, group := range s.ledger.groups() {
		var keys []string
		for _, t := range group {
			keys = append(keys, writeNames[t][index])
		}
		reply, failed := s.do(dueScript, group[0], keys, sweepMost)
		err = errors.Join(err, failed)
		for n := range reply {
			var due []string
			for _, name := range fieldsOf(reply[n]) {
				if _, ok := (listed{name: name}).key(); ok {
					due = append(due, tagNames[group[n]]+name)
				}
			}
			if len(due) == 0 {
				continue
			}
			more = more || len(due) == sweepMost
			_, failed := s.do(writeTidyScript, group[n], slices.Concat(writeNames[group[n]], due), millis(linger))
			err = errors.Join(err, failed)
		}
	}
	return more, err
}

var _ cache.Writes = (*Store)(nil)
