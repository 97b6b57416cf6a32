package cachetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oncegate/cache"
)

// walked is what one knows of a key's operation who sees all its steps.
type walked struct {
	fence     cache.Fence // the latest claim's
	origin    cache.Fence
	sent      bool // a dispatch was not withdrawn and not proved not to have happened
	doubt     bool // one of an earlier claim
	out       bool // the latest claim has dispatched, and nobody said how it ended
	completed bool
	settled   time.Time // when it completed
	text      string
	leading   bool      // the latest claim may still act
	lease     time.Time // until when
	first     time.Time // when the first dispatch was that may have been sent
}

// writeWalk takes random steps, of stale holders too, over leases, retention
// and restarts, and holds after each what must always hold: nothing leads that
// may have been sent, unless it is let run again or was proved not to have
// happened; and what completed is answered by what it completed with.
func writeWalk(f *fixture) {
	const window, steps, keys = time.Minute, 2000, 3
	rnd := rand.New(rand.NewPCG(13, 17))
	var at [keys]walked
	var holds [keys][]cache.Hold
	count := map[string]int{}
	for n := range steps {
		k := rnd.IntN(keys)
		w := &at[k]
		var did string
		fail := func(format string, args ...any) {
			f.Helper()
			f.Fatalf("step %d, key %d, %s: %s; known is %+v", n, k, did, fmt.Sprintf(format, args...), *w)
		}
		h := cache.Hold{Key: key(byte(k)), Fence: 1}
		if all := holds[k]; len(all) > 0 {
			h = all[max(0, len(all)-1-rnd.IntN(2))]
		}
		mine := h.Fence == w.fence
		fenced := func(err error) bool {
			f.Helper()
			if err != nil && !errors.Is(err, cache.ErrFenced) {
				fail("%v", err)
			}
			return err != nil
		}
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			did = "claim"
			c := write(h.Key, 1)
			switch rnd.IntN(6) {
			case 0:
				c.Write.Knowingly = true
			case 1:
				c.Write.Again = window
			case 2:
				c.Write.Within = window
			}
			g := f.claim(c)
			did = fmt.Sprintf("claim %+v", *c.Write)
			now := f.now()
			inFlight := w.leading && now.Before(w.lease)
			over := w.completed && !now.Before(w.settled.Add(memory))
			count[fmt.Sprint("role ", g.Role)]++
			switch g.Role {
			case cache.Lead:
				switch {
				case inFlight && now.Before(w.lease.Add(-time.Second)):
					fail("it leads beside fence %d", w.fence)
				case w.completed && !over && !(c.Write.Within > 0 && now.Sub(w.settled) >= window):
					fail("it leads what completed %v ago", now.Sub(w.settled))
				case w.sent && !w.completed:
					if !c.Write.Knowingly && !(c.Write.Again > 0 && now.Sub(w.first) < window+time.Second) {
						fail("it leads what may have been sent")
					}
					if g.Origin != w.origin || g.Fence <= w.fence {
						fail("run again it is %+v", g)
					}
					w.doubt = true
					count["again"]++
				default:
					if g.Origin != g.Fence || g.Fence <= w.fence {
						fail("a new operation is %+v", g)
					}
					*w = walked{}
				}
				w.out = false
				w.fence, w.origin, w.leading, w.lease = g.Fence, g.Origin, true, now.Add(lease)
				holds[k] = append(holds[k], cache.Hold{Key: h.Key, Fence: g.Fence})
			case cache.Follow:
				if !w.leading || now.After(w.lease.Add(time.Second)) {
					fail("it follows %+v", g)
				}
			case cache.InDoubt:
				if !w.sent || w.completed || g.Fence != w.fence || g.Origin != w.origin {
					fail("it is in doubt: %+v", g)
				}
				w.leading = false
			case cache.Replay:
				if !w.completed || text(g.Result.Frames) != w.text || now.After(w.settled.Add(keep+time.Second)) {
					fail("it replays %q", text(g.Result.Frames))
				}
			case cache.Gone:
				if !w.completed || now.Before(w.settled.Add(keep)) {
					fail("it is gone")
				}
			default:
				fail("it is %+v", g)
			}
		case 4, 5, 6:
			did = "dispatch"
			if fenced(f.dispatch(h)) {
				break
			}
			if !mine || !w.leading || f.now().After(w.lease.Add(time.Second)) {
				fail("fence %d went through the door", h.Fence)
			}
			if w.out {
				fail("two dispatches are outstanding")
			}
			if !w.sent {
				w.first = f.now()
			}
			w.sent, w.out = true, true
			count["dispatched"]++
		case 7:
			did = "withdraw"
			if fenced(f.withdraw(h)) {
				break
			}
			if !mine || !w.out {
				fail("fence %d took back what it had not sent", h.Fence)
			}
			w.sent, w.out = w.doubt, false
		case 8:
			did = "settle"
			s := done(fmt.Sprint(n))
			if fenced(f.Store.Settle(f.Context(), h, s)) {
				break
			}
			if !mine || !w.sent || w.completed {
				fail("fence %d completed", h.Fence)
			}
			w.completed, w.settled, w.text, w.leading = true, f.now(), text(s.Result.Frames), false
			w.out = false
			count["completed"]++
		case 9:
			did = "unknown or released"
			s := unclear(500)
			if rnd.IntN(2) == 0 {
				s = undone()
			}
			if fenced(f.Store.Settle(f.Context(), h, s)) {
				break
			}
			if !mine || w.completed {
				fail("fence %d settled", h.Fence)
			}
			w.leading, w.out = false, false
			if s.Result.State == cache.Released && !w.doubt {
				w.sent = false
				count["released"]++
			}
		case 10:
			did = "resolve"
			res := cache.Result{State: cache.Released}
			if rnd.IntN(2) == 0 {
				res = done(fmt.Sprint("r", n)).Result
			}
			err := f.Store.Resolve(f.Context(), h.Key, resolution(res))
			if errors.Is(err, cache.ErrSettled) || errors.Is(err, cache.ErrNone) {
				break
			}
			if err != nil || !w.sent || w.completed || w.leading && f.now().Before(w.lease.Add(-time.Second)) {
				fail("resolved: %v", err)
			}
			w.leading, w.out, count["resolved"] = false, false, count["resolved"]+1
			if w.sent, w.doubt = res.State == cache.Completed, false; w.sent {
				w.completed, w.settled, w.text = true, f.now(), text(res.Frames)
			}
		default:
			did = "time"
			switch rnd.IntN(16) {
			case 0:
				f.pass(memory)
			case 1, 2:
				f.pass(keep)
			case 3, 4, 5:
				f.pass(lease)
			case 6:
				for i := range at { // what was only claimed may be forgotten: give it up
					if a := &at[i]; a.leading && !a.out {
						err := f.Store.Settle(f.Context(), cache.Hold{Key: key(byte(i)), Fence: a.fence}, undone())
						fenced(err)
						a.sent = a.sent && (a.doubt || err != nil)
					}
					at[i].leading = false
				}
				f.restart()
				f.pass(lease)
			default:
				f.pass(time.Duration(rnd.IntN(8000)) * time.Millisecond)
			}
		}
		// What is recorded agrees.
		r, err := f.Store.Record(f.Context(), h.Key)
		switch {
		case errors.Is(err, cache.ErrNone):
			if w.sent && !(w.completed && !f.now().Before(w.settled.Add(memory))) {
				fail("there is no record")
			}
		case err != nil:
			fail("record: %v", err)
		case r.Fence != w.fence || r.Origin != w.origin && r.Fence == w.fence:
			fail("the record is %+v", r)
		case (r.State == cache.Completed || r.State == cache.Tombstone) != w.completed,
			(r.State == cache.Dispatched || r.State == cache.Unknown) && !w.sent,
			r.State == cache.Claimed && w.sent != w.doubt:
			fail("the record is %+v", r)
		}
	}
	for _, what := range []string{"again", "dispatched", "completed", "released", "resolved",
		fmt.Sprint("role ", cache.Lead), fmt.Sprint("role ", cache.Follow), fmt.Sprint("role ", cache.InDoubt),
		fmt.Sprint("role ", cache.Replay), fmt.Sprint("role ", cache.Gone)} {
		if count[what] < 5 {
			f.Errorf("of %q there were %d only: %v", what, count[what], count)
		}
	}
}
