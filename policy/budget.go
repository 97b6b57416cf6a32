package policy

import "time"

const (
	budgetSpan = 10 // seconds that the budget looks back on
	budgetTick = time.Second / 10
)

// budget bounds the retries that go to a target by the calls that go there.
// It is a pure account: its caller holds the gate's lock and tells the time,
// as since any fixed moment.
//
// A retry may go while, with it, there are no more of them in ten seconds than
// Ratio of the originals, and no more than a fifth of that in one second: ten
// quiet seconds would else save up a burst that doubles the load on an
// upstream which has just begun to fail. Below Floor retries a second neither
// rule counts. One bucket beyond the ten, and beyond the ten tenths of a
// second, makes both bounds hold for every window, not only for those that
// begin with a bucket.
type budget struct {
	seconds [budgetSpan + 1]struct{ originals, retries uint32 }
	second  int64 // the newest of them
	tenths  [budgetSpan + 1]uint32
	tenth   int64 // the newest of them

	spent   bool          // it was told that retries are refused
	refused time.Duration // when that happened last
}

// token is one retry in the account.
type token struct {
	second, tenth int64
	taken         bool
}

// advance moves the account on to at, and forgets what is too old.
func (b *budget) advance(at time.Duration) {
	n := int64(len(b.seconds))
	for to := int64(at / time.Second); b.second < to; {
		b.second = max(b.second, to-n) + 1
		b.seconds[b.second%n] = struct{ originals, retries uint32 }{}
	}
	for to := int64(at / budgetTick); b.tenth < to; {
		b.tenth = max(b.tenth, to-n) + 1
		b.tenths[b.tenth%n] = 0
	}
}

// original counts a call's first attempt.
func (b *budget) original(at time.Duration) token {
	b.advance(at)
	b.seconds[b.second%int64(len(b.seconds))].originals++
	return token{second: b.second}
}

// room is how many retries may go now; less than 1: none.
func (b *budget) room(c Budget, at time.Duration) float64 {
	b.advance(at)
	var originals, retries, now uint32
	oldest := (b.second + 1) % int64(len(b.seconds))
	for i, s := range b.seconds {
		retries += s.retries
		if int64(i) != oldest {
			originals += s.originals
		}
	}
	for _, n := range b.tenths {
		now += n
	}
	most := max(budgetSpan*c.Floor, c.Ratio*float64(originals))
	room := most - float64(retries)
	if c.OneSecond != Off {
		room = min(room, most/5-float64(now))
	}
	return room
}

// retry takes a token, once room has said that there is one.
func (b *budget) retry() token {
	t := token{b.second, b.tenth, true}
	b.seconds[t.second%int64(len(b.seconds))].retries++
	b.tenths[t.tenth%int64(len(b.tenths))]++
	return t
}

// refund gives back a retry that succeeded: it was worth its while. What it
// used up of its one second it has used up.
func (b *budget) refund(t token) {
	if n := int64(len(b.seconds)); t.taken && t.second > b.second-n {
		b.seconds[t.second%n].retries--
	}
}

// undo takes back an attempt that was not made after all.
func (b *budget) undo(t token) {
	n := int64(len(b.seconds))
	switch {
	case t.taken:
		b.refund(t)
		if t.tenth > b.tenth-n {
			b.tenths[t.tenth%n]--
		}
	case t.second > b.second-n:
		b.seconds[t.second%n].originals--
	}
}
