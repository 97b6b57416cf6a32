package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// logged is a house whose log of requests can be read.
type logged struct {
	*house
	store cache.Store
}

func newLogged(t *testing.T, upstream http.HandlerFunc, change func(*gateway.Options)) *logged {
	l := new(logged)
	l.house = newHouse(t, upstream, func(o *gateway.Options) {
		if change != nil {
			change(o)
		}
		l.store = o.Store
	})
	return l
}

// requests waits until the log has n, and gives them, the first one first.
func (l *logged) requests(n int) []cache.Request {
	l.t.Helper()
	var all []cache.Request
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var err error
		if all, _, err = l.store.Requests(l.t.Context(), cache.RequestFilter{}, "", 200); err != nil {
			l.t.Fatal(err)
		}
		if len(all) >= n {
			break
		}
	}
	if len(all) != n {
		l.t.Fatalf("%d requests are logged, want %d: %+v", len(all), n, all)
	}
	slices.Reverse(all)
	return all
}

// told is a timeline in words, without its times, which must be in order and
// within the request.
func told(t *testing.T, r *cache.Request) string {
	t.Helper()
	var words []string
	at := time.Duration(0)
	for _, m := range r.Timeline {
		if m.At < at || m.For < 0 || m.What != cache.WasStored && m.At > r.Took {
			t.Errorf("%s at %v is out of order, or after %v: %+v", m.What, m.At, r.Took, r.Timeline)
		}
		at = m.At
		word := m.What.String()
		if m.What == cache.WasTried && m.For <= 0 || m.What == cache.WasHeldBack && (m.Of <= 0 || m.For <= 0) || m.What == cache.WasClaimed && m.Fence == 0 {
			t.Errorf("a moment without its figures: %+v", m)
		}
		if m.Status > 0 {
			word += fmt.Sprint(" ", m.Status)
		}
		if m.Result != "" {
			word += " " + m.Result
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func TestRequestsAreLoggedWithTheirTimelines(t *testing.T) {
	var n atomic.Int64
	l := newLogged(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if n.Add(1) == 1 {
			w.WriteHeader(503)
			return
		}
		chat(w, "1")
	}, nil)
	l.post("/v1/chat/completions", hi, "Idempotency-Key", "k", "Oncegate-User", "ann")
	l.post("/v1/chat/completions", hi, "Idempotency-Key", "k")
	l.post("/v1/chat/completions", strings.Replace(hi, "hi", "ho", 1), "Idempotency-Key", "k")
	l.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off")
	l.post("/v1/nothing", hi)
	all := l.requests(4) // what is no operation is none of them
	for i, want := range []string{
		"claimed, attempt 503 503, wait, attempt 200 ok, stored completed, answered 200",
		"shared key, answered 200",
		"answered 422",
		"attempt 200 ok, answered 200",
	} {
		if got := told(t, &all[i]); got != want {
			t.Errorf("request %d: %s\nwant %s", i, got, want)
		}
	}
	first, again, refused, private := all[0], all[1], all[2], all[3]
	if first.Outcome != "executed" || first.Model != "m" || first.User != "ann" || first.Provider != "up" || first.Operation != "chat" ||
		first.Status != 200 || first.Attempts != 2 || first.Target != "up/m" || first.Record == (cache.Key{}) || !strings.HasPrefix(first.ID, "req_") {
		t.Errorf("the first is %+v", first)
	}
	if first.Upstream <= 0 || first.Overhead <= 0 || first.Upstream+first.Overhead > first.Took || time.Since(first.At) > time.Minute {
		t.Errorf("the first took %v, %v of it upstream and %v before, at %v", first.Took, first.Upstream, first.Overhead, first.At)
	}
	if want := (cache.Tokens{Known: true, Input: 3, Output: 1}); first.Tokens != want || again.Tokens != want || refused.Tokens != (cache.Tokens{}) {
		t.Errorf("tokens are %+v, %+v, %+v", first.Tokens, again.Tokens, refused.Tokens)
	}
	for i, r := range all { // there are no prices
		if r.Billed.Known || r.Saved.Known {
			t.Errorf("request %d costs %+v and saves %+v", i, r.Billed, r.Saved)
		}
	}
	if again.Outcome != "replayed" || again.Record != first.Record || again.Attempts != 2 || again.Upstream != 0 || again.ID == first.ID {
		t.Errorf("the second is %+v", again)
	}
	if refused.Outcome != "refused" || refused.Record != first.Record || refused.Status != 422 {
		t.Errorf("the third is %+v", refused)
	}
	if private.Outcome != "executed" || private.Record != (cache.Key{}) || private.Attempts != 1 {
		t.Errorf("the fourth is %+v", private)
	}
}

func TestRequestsThatShareACallAreLogged(t *testing.T) {
	open := make(chan struct{})
	l := newLogged(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-open
		chat(w, "1")
	}, nil)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { l.post("/v1/chat/completions", hi) })
	}
	l.await(`oncegate_followers{operation="chat"} 4`)
	close(open)
	wg.Wait()
	lines := map[string]int{}
	records := map[cache.Key]int{}
	for _, r := range l.requests(5) {
		lines[r.Outcome+": "+told(t, &r)]++
		records[r.Record]++
	}
	if lines["coalesced: shared twin, answered 200"] != 4 || len(records) != 1 ||
		lines["executed: claimed, attempt 200 ok, answered 200, stored completed"] != 1 {
		t.Errorf("%v of %d records", lines, len(records))
	}
}

// A client that is sent away while its call runs on is logged at once; one that
// left, when it shows what became of its call.
func TestRequestsOfClientsThatDoNotWaitAreLogged(t *testing.T) {
	reached, open := make(chan struct{}, 2), make(chan struct{})
	l := newLogged(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		reached <- struct{}{}
		<-open
		chat(w, "1")
	}, nil)
	release := sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	if a := l.post("/v1/chat/completions", hi, "Oncegate-Timeout", "1ms"); a.status != 504 {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-reached
	if away := l.requests(1)[0]; away.Outcome != "failed" || away.Status != 504 || away.Left || !strings.HasPrefix(told(t, &away), "claimed, answered 504") {
		t.Errorf("%s of %+v", told(t, &away), away)
	}
	ctx, leave := context.WithCancel(t.Context())
	req := httptest.NewRequest("POST", "http://127.0.0.1/v1/chat/completions", strings.NewReader(strings.Replace(hi, "hi", "ho", 1))).WithContext(ctx)
	req.Header.Set("Content-Type", "application/json")
	w, gone := httptest.NewRecorder(), make(chan any)
	go func() {
		defer func() { gone <- recover() }()
		l.g.Data().ServeHTTP(w, req)
	}()
	select {
	case <-reached:
	case how := <-gone:
		t.Fatalf("the second ended early, with %v: %d %s", how, w.Code, w.Body)
	}
	leave()
	if how := <-gone; how != http.ErrAbortHandler {
		t.Errorf("the client's leaving ended in %v", how)
	}
	l.requests(1) // nobody knows yet
	release()
	left := l.requests(2)[1]
	if left.Outcome != "executed" || left.Status != 499 || !left.Left || left.ID == "" || !left.Tokens.Known ||
		told(t, &left) != "claimed, attempt 200 ok, stored completed" {
		t.Errorf("%s of %+v", told(t, &left), left)
	}
}
