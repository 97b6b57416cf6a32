package redis

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"oncegate/cache"
)

// auditPlace is where an entry of the audit is: the id that its stream gave it,
// which is a time and a number, and the shard.
type auditPlace struct {
	ms, seq uint64
	shard   int
}

func (p auditPlace) compare(o auditPlace) int {
	return cmp.Or(cmp.Compare(p.ms, o.ms), cmp.Compare(p.seq, o.seq), cmp.Compare(p.shard, o.shard))
}

func (p auditPlace) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.seq, p.shard) }

// upTo is the highest id of a shard that comes after this place in the list,
// which goes back in time.
func (p auditPlace) upTo(shard int) string {
	id := fmt.Sprintf("%d-%d", p.ms, p.seq)
	if shard >= p.shard {
		return "(" + id
	}
	return id
}

func parsePlace(text string) (p auditPlace, err error) {
	words := strings.Split(text, "-")
	if len(words) != 3 {
		return p, cache.ErrCursor
	}
	ms, one := strconv.ParseUint(words[0], 10, 64)
	seq, two := strconv.ParseUint(words[1], 10, 64)
	shard, three := strconv.Atoi(words[2])
	if one != nil || two != nil || three != nil || shard < 0 || shard >= tags {
		return p, cache.ErrCursor
	}
	return auditPlace{ms, seq, shard}, nil
}

// Audits lists the audit of all shards.
func (s *Store) Audits(ctx context.Context, cursor string, limit int) (page []cache.Audit, next string, err error) {
	limit = min(max(limit, 1), listMost)
	var from *auditPlace
	if cursor != "" {
		p, err := parsePlace(cursor)
		if err != nil {
			return nil, "", err
		}
		from = &p
	}
	type found struct {
		auditPlace
		fields []string
	}
	var all []found
	for _, group := range s.ledger.groups() {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		var keys []string
		args := []any{limit + 1}
		for _, t := range group {
			keys = append(keys, writeNames[t][auditOfWrites])
			if from != nil {
				args = append(args, from.upTo(t))
			} else {
				args = append(args, "+")
			}
		}
		reply, err := s.do(auditsScript, group[0], keys, args...)
		if err != nil {
			return nil, "", err
		}
		if len(reply) != len(group) {
			return nil, "", malformed(auditsScript, reply)
		}
		for n, t := range group {
			entries, _ := reply[n].([]any)
			for _, e := range entries {
				pair, _ := e.([]any)
				if len(pair) < 2 {
					return nil, "", malformed(auditsScript, reply)
				}
				id, _ := pair[0].(string)
				p, err := parsePlace(id + "-" + strconv.Itoa(t))
				if err != nil {
					return nil, "", malformed(auditsScript, reply)
				}
				all = append(all, found{p, fieldsOf(pair[1])})
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int { return b.compare(a.auditPlace) })
	for n, f := range all {
		if n == limit {
			return page, all[n-1].String(), nil
		}
		a, err := audited(f.fields)
		if err != nil {
			return nil, "", malformed(auditsScript, f.fields)
		}
		page = append(page, a)
	}
	return page, "", nil
}

func audited(fields []string) (a cache.Audit, err error) {
	for ; len(fields) > 1 && err == nil; fields = fields[2:] {
		switch value := fields[1]; fields[0] {
		case "id":
			var b []byte
			if b, err = hex.DecodeString(value); err == nil && copy(a.Key[:], b) != len(a.Key) {
				err = cache.ErrCodec
			}
		case "about":
			err = json.Unmarshal([]byte(value), &a.About)
		case "step":
			a.Step, err = parseStep(value)
		}
	}
	return a, err
}
