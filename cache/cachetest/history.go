package cachetest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"oncegate/cache"
)

// request is the n-th of a day, with all that a request may have.
func (f *fixture) request(n int) cache.Request {
	r := cache.Request{
		At: f.now().Truncate(time.Microsecond), ID: fmt.Sprintf("req_%032x", n),
		Series: cache.Series{
			Model: []string{"m", "a/b", "ประโยค"}[n%3], Provider: "mock", Operation: "chat.completions", User: fmt.Sprint("user", n%7), Key: "team",
			Outcome: []string{"executed", "coalesced", "failed"}[n%3], Reason: []string{"", "twin", "attempts_exhausted"}[n%3],
		},
		Record: cache.Key{byte(n >> 8), byte(n), 3, 4, 31: byte(n)}, Target: "mock/m", Status: 200, Attempts: n % 4,
		Took: time.Duration(n) * time.Millisecond, Upstream: time.Microsecond, Overhead: 210 * time.Microsecond,
	}
	switch n % 3 {
	case 0:
		r.Tokens = cache.Tokens{Known: true, Input: 1 << 40, Output: int64(n), Cached: 3}
		r.Billed = cache.Amount{Money: cache.Money{Dollars: 3, Picos: 1}, Known: true}
		r.Timeline = []cache.Moment{
			{What: cache.WasClaimed, Fence: 1 << 60},
			{At: time.Millisecond, What: cache.WasTried, Target: "other/m", Status: 503, Result: "503", For: 210 * time.Millisecond},
			{At: 211 * time.Millisecond, What: cache.WasHeldBack, For: 412 * time.Millisecond, Of: 500 * time.Millisecond},
			{At: 623 * time.Millisecond, What: cache.WasTried, Target: "mock/m", Status: 200, Result: "ok", For: time.Second},
			{At: 2 * time.Second, What: cache.WasAnswered, Status: 200},
			{At: 2 * time.Second, What: cache.WasStored, Result: "completed"},
		}
	case 1:
		r.Saved = cache.Amount{Known: true} // free, and known to be
		r.Timeline = []cache.Moment{{What: cache.WasShared, Result: "twin"}}
	default:
		r.Record, r.Left, r.Status = cache.Key{}, true, 499
	}
	return r
}

// requests reads all pages of at most limit.
func (f *fixture) requests(filter cache.RequestFilter, limit int) (all []cache.Request) {
	f.Helper()
	for cursor := ""; ; {
		page, next, err := f.Store.Requests(f.Context(), filter, cursor, limit)
		if err != nil {
			f.Fatalf("requests: %v", err)
		}
		if len(page) > limit {
			f.Fatalf("a page of %d has %d", limit, len(page))
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		if cursor == next {
			f.Fatalf("a cursor leads to itself")
		}
		cursor = next
	}
}

// listed checks that a list is what was logged, but for its places.
func (f *fixture) listed(what string, got, want []cache.Request) {
	f.Helper()
	if len(got) != len(want) {
		f.Fatalf("%s: %d requests, want %d", what, len(got), len(want))
	}
	places := make(map[string]bool)
	for i := range got {
		r := got[i]
		if r.Place == "" || places[r.Place] {
			f.Fatalf("%s: place %q of request %d is no place of its own", what, r.Place, i)
		}
		places[r.Place] = true
		if r.Place = ""; !r.At.Equal(want[i].At) {
			f.Fatalf("%s: request %d is of %v, want %v", what, i, r.At, want[i].At)
		}
		r.At = want[i].At // but for its zone
		if !reflect.DeepEqual(r, want[i]) {
			f.Fatalf("%s: request %d is\n%+v, want\n%+v", what, i, r, want[i])
		}
	}
}

// log logs n requests, and gives them as they should be listed: the last first.
func (f *fixture) log(from, n int) []cache.Request {
	all := make([]cache.Request, n)
	for i := range n {
		r := f.request(from + i)
		all[n-1-i] = r
		f.Store.Log(&r)
		r.Timeline = nil // it is the caller's again
	}
	return all
}

func historyListed(f *fixture) {
	f.listed("nothing", f.requests(cache.RequestFilter{}, 10), nil)
	want := f.log(0, 5)
	f.listed("at once", f.requests(cache.RequestFilter{}, 200), want)
	for _, limit := range []int{1, 2, 4, 5} {
		f.listed(fmt.Sprint("pages of ", limit), f.requests(cache.RequestFilter{}, limit), want)
	}
	f.pass(time.Hour)
	want = append(f.log(5, 700), want...) // some blocks, and more
	f.listed("many", f.requests(cache.RequestFilter{}, 200), want)
	f.listed("many, odd pages", f.requests(cache.RequestFilter{}, 77), want)
	if page, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, "", 1000); err != nil || len(page) != cache.MostPage {
		f.Errorf("a page of 1000 has %d, %v", len(page), err)
	}
	if page, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, "", 0); err != nil || len(page) != 1 {
		f.Errorf("a page of 0 has %d, %v", len(page), err)
	}
}

func historyFilters(f *fixture) {
	begin := f.now().Truncate(time.Microsecond)
	want := f.log(0, 300)
	f.pass(time.Minute)
	noon := f.now().Truncate(time.Microsecond)
	want = append(f.log(300, 300), want...)
	f.pass(time.Minute)
	want = append(f.log(600, 30), want...)
	for name, filter := range map[string]cache.RequestFilter{
		"since":               {Since: noon},
		"until":               {Until: noon},
		"a range":             {Since: noon, Until: noon.Add(30 * time.Second)},
		"an empty range":      {Since: noon.Add(time.Hour)},
		"before all":          {Until: begin},
		"a model":             {Series: cache.Series{Model: "ประโยค"}},
		"a model with slash":  {Series: cache.Series{Model: "a/b"}},
		"provider, operation": {Series: cache.Series{Provider: "mock", Operation: "chat.completions"}},
		"no tool, no reason":  {Series: cache.Series{Tool: cache.Unnamed, Reason: cache.Unnamed}},
		"nobody, nothing":     {Series: cache.Series{User: cache.Unnamed}},
		"user and outcome":    {Series: cache.Series{User: "user3", Outcome: "failed"}},
		"key and reason":      {Series: cache.Series{Key: "team", Reason: "twin"}},
		"no such tool":        {Series: cache.Series{Tool: "payments"}},
		"part of a name":      {Series: cache.Series{User: "user"}},
		"user, since":         {Since: noon, Series: cache.Series{User: "user1"}},
		"an id":               {Find: cache.Find{ID: want[400].ID}},
		"no such id":          {Find: cache.Find{ID: "req_"}},
		"a record":            {Find: cache.Find{Record: hex.EncodeToString(want[2].Record[:])}},
		"a record's begin":    {Find: cache.Find{Record: hex.EncodeToString(want[510].Record[:])[:9]}},
		"much of them":        {Find: cache.Find{Record: "0"}},
		"no record":           {Find: cache.Find{Record: "0101010101"}},
		"too long a record":   {Find: cache.Find{Record: hex.EncodeToString(want[2].Record[:]) + "0"}},
		"keys":                {Find: cache.Find{Keys: []cache.Key{want[14].Record, want[500].Record, {9}}}},
		"any of these":        {Find: cache.Find{ID: want[20].ID, Record: hex.EncodeToString(want[2].Record[:]), Keys: []cache.Key{want[500].Record}}},
		"a record of a model": {Series: cache.Series{Model: "m"}, Find: cache.Find{Record: "00"}},
	} {
		var those []cache.Request
		for _, r := range want {
			if chosen(&filter, &r) {
				those = append(those, r)
			}
		}
		f.listed(name, f.requests(filter, 200), those)
		f.listed(name+", small pages", f.requests(filter, 7), those)
	}
}

// chosen is what a filter should choose, said anew.
func chosen(f *cache.RequestFilter, r *cache.Request) bool {
	is := func(want, has string) bool { return want == "" || want == has || want == "-" && has == "" }
	s := f.Series
	if !is(s.Model, r.Model) || !is(s.Provider, r.Provider) || !is(s.Operation, r.Operation) || !is(s.User, r.User) ||
		!is(s.Key, r.Key) || !is(s.Tool, r.Tool) || !is(s.Outcome, r.Outcome) || !is(s.Reason, r.Reason) ||
		r.At.Before(f.Since) || !f.Until.IsZero() && !r.At.Before(f.Until) {
		return false
	}
	find := f.Find
	if find.ID == "" && find.Record == "" && find.Keys == nil || find.ID != "" && find.ID == r.ID {
		return true
	}
	if r.Record == (cache.Key{}) {
		return false
	}
	name := hex.EncodeToString(r.Record[:])
	if n := len(find.Record); n > 0 && n <= len(name) && name[:n] == find.Record {
		return true
	}
	return slices.Contains(find.Keys, r.Record)
}

// historyTail: what comes while a list is read comes before it.
func historyTail(f *fixture) {
	want := f.log(0, 600)
	var got []cache.Request
	cursor, later := "", 600
	for {
		page, next, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, cursor, 50)
		if err != nil {
			f.Fatal(err)
		}
		got = append(got, page...)
		if next == "" {
			break
		}
		cursor = next
		f.log(later, 40)
		later += 40
		f.pass(2 * time.Second)
	}
	f.listed("read while more came", got, want)
	since := f.requests(cache.RequestFilter{After: got[0].Place}, 33)
	if len(since) != later-600 {
		f.Fatalf("after the first one %d, want %d", len(since), later-600)
	}
	f.listed("after the latest", f.requests(cache.RequestFilter{After: since[0].Place}, 10), nil)
	// A place is a cursor.
	page, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, since[len(since)-1].Place, 200)
	if err != nil {
		f.Fatal(err)
	}
	f.listed("behind a place", page, want[:200])
}

func historyRestart(f *fixture) {
	want := f.log(0, 300)
	page, next, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, "", 100)
	if err != nil {
		f.Fatal(err)
	}
	f.restart()
	f.listed("after a restart", f.requests(cache.RequestFilter{}, 200), want)
	want = append(f.log(300, 3), want...)
	f.restart()
	want = append(f.log(303, 300), want...)
	f.listed("after two", f.requests(cache.RequestFilter{}, 200), want)
	rest, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, next, 200)
	if err != nil {
		f.Fatal(err)
	}
	f.listed("a page from before", append(page, rest...), want[303:])
}

// historyKept is what becomes of what is odd.
func historyKept(f *fixture) {
	long := string(make([]byte, 3*cache.MostName))
	r := f.request(0)
	r.Model, r.ID, r.Target = long, long, "é"+long
	r.Status, r.Attempts, r.Took, r.Tokens.Input, r.Billed.Dollars = -1, 1<<40, -time.Hour, -1, -1
	for range 2 * cache.MostMoments {
		r.Timeline = append(r.Timeline, cache.Moment{What: 200, At: -1, Target: long, Result: long})
	}
	f.Store.Log(&r)
	f.Store.Log(&cache.Request{})
	got := f.requests(cache.RequestFilter{}, 10)
	if len(got) != 2 {
		f.Fatalf("%d requests, want 2", len(got))
	}
	a := got[1]
	if len(a.Model) != cache.MostName || len(a.ID) != cache.MostName || len(a.Target) != cache.MostName || len(a.Timeline) != cache.MostMoments {
		f.Errorf("kept are %d, %d, %d bytes and %d moments", len(a.Model), len(a.ID), len(a.Target), len(a.Timeline))
	}
	if a.Status != 0 || a.Took != 0 || a.Tokens.Input != 0 || a.Billed.Dollars != 0 || !a.Billed.Known {
		f.Errorf("what is negative became %+v", a)
	}
	got[0].Place = ""
	if at := got[0].At; at.UnixMicro() != 0 {
		f.Errorf("a request of no time is of %v", at)
	}
}

func historyCursors(f *fixture) {
	f.log(0, 3)
	for _, cursor := range []string{"x", "n", "n1x", "-1", "1-1", "n-1", "1-2-3-4", "a1", "99999999999999999999999999", "1-1-b"} {
		if _, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, cursor, 10); !errors.Is(err, cache.ErrCursor) {
			f.Errorf("cursor %q: %v", cursor, err)
		}
		if _, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{After: cursor}, "", 10); !errors.Is(err, cache.ErrCursor) {
			f.Errorf("after %q: %v", cursor, err)
		}
	}
}

func historyTogether(f *fixture) {
	const each, callers = 200, 8
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				r := f.request(c*each + i)
				f.Store.Log(&r)
			}
		})
		wg.Go(func() {
			for range 5 {
				if _, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{Series: cache.Series{User: "user1"}}, "", 50); err != nil {
					f.Error(err)
				}
			}
		})
	}
	wg.Wait()
	ids := make(map[string]int)
	for _, r := range f.requests(cache.RequestFilter{}, 200) {
		ids[r.ID]++
	}
	if len(ids) != each*callers {
		f.Fatalf("%d requests, want %d", len(ids), each*callers)
	}
	for id, n := range ids {
		if n != 1 {
			f.Errorf("%s comes %d times", id, n)
		}
	}
}

func historyClosed(f *fixture) {
	f.log(0, 3)
	if err := f.Store.Close(); err != nil {
		f.Fatal(err)
	}
	r := f.request(4)
	f.Store.Log(&r) // neither fails nor waits
	if _, _, err := f.Store.Requests(f.Context(), cache.RequestFilter{}, "", 10); !errors.Is(err, cache.ErrAway) {
		f.Errorf("after Close: %v", err)
	}
}
