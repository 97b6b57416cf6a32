package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// logs logs requests of a node, whose ids are its name and these numbers.
func logs(s *Store, node string, from, until int) {
	for n := from; n < until; n++ {
		s.Log(&cache.Request{At: time.Now(), ID: fmt.Sprintf("%s%d", node, n), Series: cache.Series{User: node}})
	}
}

// logged gives the ids of all requests, the latest first.
func logged(t *testing.T, s *Store, f cache.RequestFilter, limit int) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		var page []cache.Request
		var next string
		eventually(t, 10*time.Second, "the store answers", func() bool {
			var err error
			if page, next, err = s.Requests(t.Context(), f, cursor, limit); err != nil && !errors.Is(err, cache.ErrAway) {
				t.Fatal(err)
			}
			return err == nil
		})
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if cursor = next; next == "" {
			return ids
		}
	}
}

func downFrom(node string, until, from int) (ids []string) {
	for n := until - 1; n >= from; n-- {
		ids = append(ids, fmt.Sprintf("%s%d", node, n))
	}
	return ids
}

func TestRequestsOfSeveralNodes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := mustOpen(t, server.URL(), Options{}), mustOpen(t, server.URL(), Options{})
	for n := range 5 {
		logs(a, "a", 100*n, 100*n+100)
		logged(t, a, cache.RequestFilter{}, 200)
		logs(b, "b", 100*n, 100*n+100)
		logged(t, b, cache.RequestFilter{}, 200)
	}
	var want []string
	for n := 4; n >= 0; n-- {
		want = append(append(want, downFrom("b", 100*n+100, 100*n)...), downFrom("a", 100*n+100, 100*n)...)
	}
	for name, s := range map[string]*Store{"a": a, "b": b} {
		if got := logged(t, s, cache.RequestFilter{}, 70); !slices.Equal(got, want) {
			t.Errorf("node %s lists %d requests, want %d", name, len(got), len(want))
		}
		if got := logged(t, s, cache.RequestFilter{Series: cache.Series{User: "a"}}, 70); !slices.Equal(got, downFrom("a", 500, 0)) {
			t.Errorf("node %s lists %d requests of a's", name, len(got))
		}
	}
	// What a node logged is there without its doing, a second later.
	logs(a, "c", 0, 3)
	eventually(t, 5*time.Second, "the other node lists it", func() bool {
		return slices.Equal(logged(t, b, cache.RequestFilter{Series: cache.Series{User: "c"}}, 70), downFrom("c", 3, 0))
	})
}

func TestRequestsWhenRepliesAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	p.Lose(everyNth(4))
	s := mustOpen(t, "redis://"+p.Addr, Options{Oops: func(string, error) {}})
	for n := range 30 {
		logs(s, "a", 10*n, 10*n+10)
		eventually(t, 10*time.Second, "it is pushed", func() bool { return s.history.push(t.Context()) == nil })
	}
	if got := logged(t, mustOpen(t, server.URL(), Options{}), cache.RequestFilter{}, 200); !slices.Equal(got, downFrom("a", 300, 0)) {
		t.Errorf("%d requests are listed, want 300, each once", len(got))
	}
}

func TestOldRequestsGo(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	server := clock.Start()
	s := mustOpen(t, server.URL(), Options{})
	s.history.most = 20 << 10
	for n := range 50 {
		logs(s, "a", n*cache.BlockRequests, (n+1)*cache.BlockRequests)
		if err := s.history.push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const all = 50 * cache.BlockRequests
	got := logged(t, s, cache.RequestFilter{}, 200)
	if len(got) < 3*cache.BlockRequests || len(got) > all/2 || !slices.Equal(got, downFrom("a", all, all-len(got))) {
		t.Errorf("%d of %d are left", len(got), all)
	}
	if size := server.Do("get", logNames[1]); fmt.Sprint(size) > fmt.Sprint(20<<10) {
		t.Errorf("they are said to be %v bytes", size)
	}
	clock.Pass(keepRequests + time.Hour)
	for n := range 10 { // each block that comes drops some
		logs(s, "b", n, n+1)
		if err := s.history.push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := logged(t, s, cache.RequestFilter{}, 200); !slices.Equal(got, downFrom("b", 10, 0)) {
		t.Errorf("after a month %d are left", len(got))
	}
}

// While Redis is away requests wait, as many as have room; it is back, and so
// are they.
func TestRequestsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes")
	s := mustOpen(t, server.URL(), Options{Oops: func(string, error) {}})
	logs(s, "a", 0, 10)
	if got := logged(t, s, cache.RequestFilter{}, 200); len(got) != 10 {
		t.Fatalf("%d are listed", len(got))
	}
	server.Kill()
	const room = cache.MostWaiting * cache.BlockRequests
	logs(s, "a", 10, 10+room+1000)
	if missed := s.Missed(); missed == 0 || missed > 1000 {
		t.Errorf("%d are missed", missed)
	}
	if _, _, err := s.Requests(t.Context(), cache.RequestFilter{}, "", 10); !errors.Is(err, cache.ErrAway) {
		t.Errorf("%v", err)
	}
	server.Restart("--appendonly", "yes")
	eventually(t, 20*time.Second, "they are there", func() bool {
		return len(logged(t, s, cache.RequestFilter{}, 200)) == 10+room+1000-int(s.Missed())
	})
}
