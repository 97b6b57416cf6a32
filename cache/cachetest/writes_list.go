package cachetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"oncegate/cache"
)

// list reads a whole list, so many a page.
func (f *fixture) list(filter cache.Filter, limit int) (all []cache.Record) {
	f.Helper()
	for cursor := ""; ; {
		page, next, err := f.Store.Records(f.Context(), filter, cursor, limit)
		if err != nil || len(page) > limit || next != "" && len(page) == 0 {
			f.Fatalf("list %+v: %d records, next %q, %v", filter, len(page), next, err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		cursor = next
	}
}

// writeLists makes records of every state, and lists them in every way.
func writeLists(f *fixture) {
	var when = map[cache.Key]struct{ claimed, dispatched time.Time }{}
	of := func(n byte) cache.Claim {
		c := write(key(n), 1)
		c.Write.About.Tool = []string{"payments", "mail"}[n%2]
		c.Write.About.Principal = []string{"research", "sales", "ops"}[n%3]
		c.Write.Knowingly = true
		return c
	}
	holds := map[byte]cache.Hold{}
	begin := func(n byte) {
		f.Helper()
		holds[n] = f.begins(of(n))
		when[key(n)] = struct{ claimed, dispatched time.Time }{claimed: f.now()}
		f.pass(time.Second)
	}
	dispatch := func(n byte) {
		f.Helper()
		f.dispatches(holds[n])
		w := when[key(n)]
		w.dispatched = f.now()
		when[key(n)] = w
		f.pass(time.Second)
	}
	// The tombstones are oldest.
	for n := range byte(4) {
		begin(n)
		dispatch(n)
		f.settle(holds[n], done(fmt.Sprint(n)))
	}
	begin(4)
	dispatch(4)
	f.settle(holds[4], undone())
	f.pass(keep)
	// Dispatched in another order than claimed, within their lease.
	begin(10)
	begin(11)
	begin(12)
	dispatch(12)
	dispatch(10)
	dispatch(11)
	for _, n := range []byte{11, 10, 12} {
		f.settle(holds[n], unclear(500))
	}
	begin(13) // one that lapses
	dispatch(13)
	f.pass(lease)
	for n := byte(20); n < 24; n++ {
		begin(n)
		dispatch(n)
		f.settle(holds[n], done(fmt.Sprint(n)))
	}
	begin(30)
	begin(31)
	dispatch(31)
	begin(32)
	f.settle(holds[32], undone())

	states := map[byte]cache.State{
		0: cache.Tombstone, 1: cache.Tombstone, 2: cache.Tombstone, 3: cache.Tombstone,
		10: cache.Unknown, 11: cache.Unknown, 12: cache.Unknown, 13: cache.Unknown,
		20: cache.Completed, 21: cache.Completed, 22: cache.Completed, 23: cache.Completed,
		30: cache.Claimed, 31: cache.Dispatched,
	}
	check := func(stage string) {
		f.Helper()
		for _, filter := range []cache.Filter{
			{}, {State: cache.Unknown}, {State: cache.Completed}, {State: cache.Tombstone}, {State: cache.Claimed}, {State: cache.Dispatched},
			{State: cache.Released}, {Tool: "payments"}, {Tool: "mail"}, {Tool: "none"}, {Principal: "ops"}, {Principal: "none"},
			{Tool: "mail", Principal: "ops"}, {State: cache.Unknown, Tool: "mail"}, {State: cache.Completed, Principal: "sales"},
			{State: cache.Tombstone, Tool: "payments", Principal: "research"}, {State: cache.Dispatched, Tool: "mail"},
		} {
			var want []cache.Key
			for n, s := range states {
				a := of(n).Write.About
				if (filter.State == cache.Absent || filter.State == s) && (filter.Tool == "" || filter.Tool == a.Tool) &&
					(filter.Principal == "" || filter.Principal == a.Principal) {
					want = append(want, key(n))
				}
			}
			slices.SortFunc(want, func(a, b cache.Key) int {
				if filter.State == cache.Unknown {
					return when[a].dispatched.Compare(when[b].dispatched)
				}
				return when[b].claimed.Compare(when[a].claimed)
			})
			for _, limit := range []int{1, 2, 3, 200} {
				var got []cache.Key
				for _, r := range f.list(filter, limit) {
					got = append(got, r.Key)
					n := r.Key[0]
					if r.State != states[n] || r.About != of(n).Write.About || len(r.Trail) != 1 || r.Frames != nil || r.Fence == 0 {
						f.Errorf("%s: it lists %+v", stage, r)
					}
				}
				if !slices.Equal(got, want) {
					f.Fatalf("%s: %+v by %d lists %x, want %x", stage, filter, limit, got, want)
				}
			}
		}
	}
	check("at first")
	f.restart()
	f.pass(lease)
	delete(states, 30)
	states[31] = cache.Unknown
	check("after a restart")
	f.pass(memory - 2*keep)
	for n := byte(20); n < 24; n++ {
		states[n] = cache.Tombstone
	}
	check("when answers went")
	f.pass(2 * keep)
	for n, s := range states {
		if s == cache.Tombstone {
			delete(states, n)
		}
	}
	check("when keys went")

	// What changes meanwhile is no reason to miss what does not.
	page, next, err := f.Store.Records(f.Context(), cache.Filter{State: cache.Unknown}, "", 2)
	if err != nil || len(page) != 2 || next == "" {
		f.Fatalf("the first page: %+v, %q, %v", page, next, err)
	}
	f.resolves(page[1].Key, cache.Result{State: cache.Released})
	h := f.sends(of(40))
	f.settle(h, unclear(0))
	rest, _, err := f.Store.Records(f.Context(), cache.Filter{State: cache.Unknown}, next, 200)
	if err != nil || len(rest) != len(states)-2+1 || rest[len(rest)-1].Key != key(40) {
		f.Errorf("the rest: %+v, %v", rest, err)
	}

	// What happened, and has no answer, is listed as what it is by itself.
	f.resolves(key(40), cache.Result{State: cache.Completed})
	alone := f.record(key(40), cache.Tombstone)
	if all := f.list(cache.Filter{State: cache.Tombstone}, 200); len(all) != 1 || all[0].Key != key(40) || all[0].State != alone.State {
		f.Errorf("tombstones: %+v", all)
	}
	if all := f.list(cache.Filter{}, 1); all[0].Key != key(40) || all[0].State != alone.State {
		f.Errorf("the latest: %+v", all[0])
	}

	for _, cursor := range []string{"x", " ", "é", string(make([]byte, 1000))} {
		if _, _, err := f.Store.Records(f.Context(), cache.Filter{State: cache.Unknown}, cursor, 2); !errors.Is(err, cache.ErrCursor) {
			f.Errorf("the cursor %q: %v", cursor, err)
		}
		if _, _, err := f.Store.Audits(f.Context(), cursor, 2); !errors.Is(err, cache.ErrCursor) {
			f.Errorf("the audit's cursor %q: %v", cursor, err)
		}
	}
}
