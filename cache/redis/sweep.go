package redis

import (
	"errors"
	"strings"
	"time"
)

const (
	// sweepEvery is how often the node that folds looks for claims that are
	// forgotten: each of their nodes is dead, which is rare.
	sweepEvery = 10 * time.Second
	// sweepMost is how many of a shard are swept at once.
	sweepMost = 64
)

// sweep ends claims in flight that are forgotten: nobody settled or took them
// over, and their leases ended so long ago that nobody will. What they come to
// is booked, once whoever sweeps, and however often.
func (l *ledger) sweep() (err error) {
	for _, group := range l.groups() {
		var keys []string
		for _, t := range group {
			keys = append(keys, inflightName(t))
		}
		reply, failed := l.s.do(dueScript, group[0], keys, sweepMost)
		err = errors.Join(err, failed)
		for n := range reply {
			claims, _ := reply[n].([]any)
			for _, c := range claims {
				name, _ := c.(string)
				if failed := l.forget(group[n], name); failed != nil {
					err = errors.Join(err, failed)
					break
				}
			}
		}
	}
	return errors.Join(err, l.s.sweepWrites())
}

func (l *ledger) forget(t int, name string) error {
	key, fence, _ := strings.Cut(name, " ")
	_, err := l.s.do(forgetScript, t, []string{tagNames[t] + key, inflightName(t), tailName(t)}, name, fence)
	return err
}
