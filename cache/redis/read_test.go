package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// follows leads on one node and reads on another.
func follows(t testing.TB, leads, reads *Store) {
	t.Helper()
	wanted := make(chan cache.Hold, 8)
	leads.OnWanted(func(h cache.Hold) { wanted <- h })
	h := mustClaim(t, leads, claim(200), cache.Lead)
	if got := mustClaim(t, reads, claim(200), cache.Follow); got != h {
		t.Fatalf("follows %v, want %v", got, h)
	}
	type part struct {
		text string
		res  *cache.Result
		err  error
	}
	parts := make(chan part)
	go func() {
		for n := 0; ; {
			frames, res, err := reads.Read(t.Context(), h, n)
			n += len(frames)
			parts <- part{text(frames), res, err}
			if res != nil || err != nil {
				return
			}
		}
	}()
	for n, s := range []string{"a", "b", "c"} {
		if err := leads.Append(t.Context(), h, n, frames(s)); err != nil {
			t.Fatal(err)
		}
		if p := <-parts; p.text != s || p.err != nil || p.res != nil {
			t.Fatalf("read %+v, want %s", p, s)
		}
	}
	select {
	case got := <-wanted:
		if got != h {
			t.Errorf("told that %v is wanted, not %v", got, h)
		}
	case <-time.After(2 * time.Second): // or the renewal says it
		if wanted, err := leads.Renew(t.Context(), h, lease); !wanted || err != nil {
			t.Errorf("wanted: %v, %v", wanted, err)
		}
	}
	if err := leads.Settle(t.Context(), h, answer("a", "b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	if p := <-parts; p.text != "d" || p.res == nil || text(p.res.Frames) != "abcd" {
		t.Fatalf("at the end %+v", p)
	}
}

func TestFollowAcrossNodes(t *testing.T) {
	server := redistest.Start(t)
	follows(t, mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+server.Addr, Options{}))
}

// subscribed waits until a server's connections for notices listen to n
// channels, and says how many connections those are.
func subscribed(t testing.TB, server *redistest.Server, n int) (connections int) {
	t.Helper()
	eventually(t, 5*time.Second, strconv.Itoa(n)+" channels are listened to", func() bool {
		list, _ := server.Do("client", "list", "type", "pubsub").(string)
		channels := 0
		connections = 0
		for line := range strings.Lines(list) {
			for field := range strings.FieldsSeq(line) {
				if v, ok := strings.CutPrefix(field, "sub="); ok {
					sub, _ := strconv.Atoi(v)
					channels += sub
					connections++
				}
			}
		}
		return channels == n
	})
	return connections
}

// However many logs a node follows, it takes one connection; and a reader hears
// of a frame by notice, not by asking.
func TestManyFollowedLogs(t *testing.T) {
	server := redistest.Start(t)
	leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+server.Addr, Options{})
	const logs = 200
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		late  []time.Duration
		sent  [logs]time.Time
		holds [logs]cache.Hold
	)
	for n := range logs {
		c := claim(byte(n))
		c.Key[2] = byte(n >> 8)
		holds[n] = mustClaim(t, leads, c, cache.Lead)
		wg.Go(func() {
			frames, _, err := reads.Read(t.Context(), holds[n], 0)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, time.Since(sent[n]))
			if err != nil || text(frames) != "a" {
				t.Errorf("read %q, %v", text(frames), err)
			}
		})
	}
	if n := subscribed(t, server, logs+2); n != 2 {
		t.Errorf("%d connections for notices, of two nodes", n)
	}
	for n := range logs {
		mu.Lock()
		sent[n] = time.Now()
		mu.Unlock()
		if err := leads.Append(t.Context(), holds[n], 0, frames("a")); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	slices.Sort(late)
	if median := late[len(late)/2]; median > 25*time.Millisecond {
		t.Errorf("half of the frames come later than %v", median)
	}
	// What nobody reads any more is not listened to either.
	subscribed(t, server, 2)
}

// Notices may be lost: the reader asks.
func TestLostNotices(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("acl", "setuser", "deaf", "on", ">pw", "~oncegate:*", "&oncegate:*", "+@all", "-subscribe")
	leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://deaf:pw@"+server.Addr, Options{})
	h := mustClaim(t, leads, claim(1), cache.Lead)
	done := make(chan time.Time)
	go func() {
		got, _, err := reads.Read(t.Context(), h, 0)
		if err != nil || text(got) != "a" {
			t.Errorf("read %q, %v", text(got), err)
		}
		done <- time.Now()
	}()
	eventually(t, 5*time.Second, "it reads", func() bool { return server.Do("hget", recordName(h.Key), "wanted") == "1" })
	begin := time.Now()
	if err := leads.Append(t.Context(), h, 0, frames("a")); err != nil {
		t.Fatal(err)
	}
	if took := (<-done).Sub(begin); took > 2*pollEvery {
		t.Errorf("it came after %v", took)
	}
	if f := reads.notices.follow(h); f.confirmed {
		t.Error("it was told, and the test shows nothing")
	}
	if wanted, err := leads.Renew(t.Context(), h, lease); !wanted || err != nil {
		t.Errorf("the renewal says wanted: %v, %v", wanted, err)
	}
}

// listens waits until a node hears what is for it alone.
func listens(t *testing.T, server *redistest.Server, s *Store) {
	t.Helper()
	eventually(t, 5*time.Second, "it listens", func() bool {
		reply, _ := server.Do("pubsub", "numsub", nodeChannel(s.node)).([]any)
		return len(reply) == 2 && reply[1] == int64(1)
	})
}

// Those who read are asked, and answer whether frames come to them by
// notice, they wait, or no notice reaches them. Once nobody answers, whoever
// follows next is told of to the leader at once.
func TestReadersAreAsked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do("acl", "setuser", "deaf", "on", ">pw", "~oncegate:*", "&oncegate:*", "+@all", "-subscribe")
	for name, c := range map[string]struct {
		user  string
		speak bool
	}{"speaks": {"", true}, "silent": {"", false}, "no notices": {"deaf:pw@", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+c.user+server.Addr, Options{})
			calls := make(chan cache.Hold, 8)
			leads.OnWanted(func(h cache.Hold) { calls <- h })
			listens(t, server, leads)
			h := mustClaim(t, leads, claim(name[1]), cache.Lead)
			mark := func() any { return server.Do("hget", recordName(h.Key), "wanted") }
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				for n := 0; ctx.Err() == nil; {
					frames, _, _ := reads.Read(ctx, h, n)
					n += len(frames)
				}
			}()
			eventually(t, 5*time.Second, "it reads", func() bool { return mark() == "1" })
			called := func() {
				t.Helper()
				select {
				case <-calls:
				case <-time.After(2 * time.Second):
					t.Fatal("the leader was not told")
				}
			}
			called()
			n := 0
			for range 10 {
				if wanted, err := leads.Ask(t.Context(), h); !wanted || err != nil {
					t.Fatalf("wanted %v, %v", wanted, err)
				}
				if mark() != "1" { // or it was answered already
					if c.speak {
						for range 5 {
							if err := leads.Append(t.Context(), h, n, frames("a")); err != nil {
								t.Fatal(err)
							}
							n++
						}
					}
					eventually(t, 2*pollEvery, "it is answered", func() bool { return mark() == "1" })
				}
			}
			leave()
			<-gone
			eventually(t, cache.Unread+2*time.Second, "nobody reads", func() bool {
				wanted, err := leads.Ask(t.Context(), h)
				return !wanted && err == nil
			})
			if got := mark(); got != nil {
				t.Errorf("the mark is still there: %v", got)
			}
			select {
			case <-calls:
				t.Error("the leader was told though nobody came")
			default:
			}
			mustClaim(t, reads, claim(name[1]), cache.Follow)
			called()
			if wanted, err := leads.Ask(t.Context(), h); !wanted || err != nil {
				t.Errorf("followed again: wanted %v, %v", wanted, err)
			}
		})
	}
}

// The connection for notices may go silent: its readers ask then.
func TestNoticesGoSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+p.Addr, Options{})
	h := mustClaim(t, leads, claim(1), cache.Lead)
	got := make(chan string)
	go func() {
		for n := range 2 {
			frames, _, err := reads.Read(t.Context(), h, n)
			if err != nil {
				t.Error(err)
			}
			got <- text(frames)
		}
	}()
	f := reads.notices.follow(h)
	sure := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.sure
	}
	for n, s := range []string{"a", "b"} {
		eventually(t, 5*time.Second, "the reader relies on notices", sure)
		begin := time.Now()
		if n == 1 {
			p.Drop(func(reply []byte) bool {
				return bytes.Contains(reply, []byte("\r\nmessage\r\n")) || bytes.Contains(reply, []byte("\r\npong\r\n"))
			})
		}
		if err := leads.Append(t.Context(), h, n, frames(s)); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != s {
			t.Errorf("read %q, want %q", text, s)
		}
		if took := time.Since(begin); took > 2*pollEvery {
			t.Errorf("%s came after %v", s, took)
		}
	}
}

// Readers that rely on notices ask once a second each, to find out what there
// is no notice of.
func TestReadersThatWaitAskSeldom(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+server.Addr, Options{})
	const logs = 50
	var follows []*follow
	for n := range byte(logs) {
		h := mustClaim(t, leads, claim(n), cache.Lead)
		follows = append(follows, reads.notices.follow(h))
		go func() { _, _, _ = reads.Read(t.Context(), h, 0) }()
	}
	eventually(t, 5*time.Second, "all rely on notices", func() bool {
		for _, f := range follows {
			f.mu.Lock()
			sure := f.sure
			f.mu.Unlock()
			if !sure {
				return false
			}
		}
		return true
	})
	calls := func() (n int) {
		_, _ = fmt.Sscanf(server.Info("commandstats", "cmdstat_evalsha"), "calls=%d", &n)
		return n
	}
	before := calls()
	<-time.After(4 * pollEvery)
	if n := calls() - before; n > 2*logs {
		t.Errorf("%d readers asked %d times in %v", logs, n, 4*pollEvery)
	}
}

// The connection for notices may end: what was told meanwhile is not missed,
// and it comes back.
func TestNoticesComeBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	leads, reads := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+server.Addr, Options{})
	h := mustClaim(t, leads, claim(1), cache.Lead)
	got := make(chan string)
	go func() {
		for n := range 2 {
			frames, _, err := reads.Read(t.Context(), h, n)
			if err != nil {
				t.Error(err)
			}
			got <- text(frames)
		}
	}()
	for n, s := range []string{"a", "b"} {
		subscribed(t, server, 3)
		server.Do("client", "kill", "type", "pubsub")
		if err := leads.Append(t.Context(), h, n, frames(s)); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != s {
			t.Errorf("read %q, want %q", text, s)
		}
	}
	subscribed(t, server, 2) // the leader's, too, and nobody reads any more
}

// Old readers finish while a new leader starts.
func TestReadersOfAReplacedRecord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	h := mustClaim(t, s, claim(1), cache.Lead)
	mustClaim(t, s, claim(1), cache.Follow)
	if err := s.Append(t.Context(), h, 0, frames("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), h, answer("a", "b")); err != nil {
		t.Fatal(err)
	}
	next := mustClaim(t, s, claim(1), cache.Lead)
	got, res, err := s.Read(t.Context(), h, 1)
	if err != nil || text(got) != "b" || res == nil || res.State != cache.Completed || text(res.Frames) != "ab" {
		t.Errorf("read %q, %+v, %v", text(got), res, err)
	}
	// Of one that was given up: what its leader shows of it, or that it was.
	mustClaim(t, s, claim(1), cache.Follow)
	gone := answer("x", "cut")
	gone.Result.State = cache.Released
	if err := s.Settle(t.Context(), next, gone); err != nil {
		t.Fatal(err)
	}
	last := mustClaim(t, s, claim(1), cache.Lead)
	if got, res, err = s.Read(t.Context(), next, 0); err != nil || text(got) != "xcut" || res == nil || res.State != cache.Released {
		t.Errorf("read %q, %+v, %v", text(got), res, err)
	}
	mustClaim(t, s, claim(1), cache.Follow)
	if err := s.Append(t.Context(), last, 0, frames("too large")); err != nil {
		t.Fatal(err)
	}
	gone = cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}}
	if err := s.Settle(t.Context(), last, gone); err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // before it is claimed anew, and after
		if got, res, err = s.Read(t.Context(), last, 0); err != nil || res == nil || res.State != cache.Released || len(res.Frames) != 0 || len(got) != 0 {
			t.Errorf("read %q, %+v, %v", text(got), res, err)
		}
		if n == 0 {
			mustClaim(t, s, claim(1), cache.Lead)
		}
	}
	// And no log outlives its readers for long.
	for _, h := range []cache.Hold{h, next, last} {
		if ms, _ := server.Do("pttl", logName(h)).(int64); ms <= 0 || ms > logTail.Milliseconds() {
			t.Errorf("its end is kept for %d ms", ms)
		}
	}
}

// A long prefix goes and comes in parts.
func TestLongLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	h := mustClaim(t, s, claim(1), cache.Lead)
	var all []cache.Frame
	for n := range 3000 {
		all = append(all, cache.Frame{Kind: cache.BodyFrame, Data: []byte(strings.Repeat(strconv.Itoa(n%10), 1000))})
	}
	for range 2 { // sent again
		if err := s.Append(t.Context(), h, 0, all); err != nil {
			t.Fatal(err)
		}
	}
	var got []cache.Frame
	for len(got) < len(all) {
		part, _, err := s.Read(t.Context(), h, len(got))
		if err != nil || len(part) == 0 {
			t.Fatalf("%d frames, %v", len(part), err)
		}
		got = append(got, part...)
	}
	if text(got) != text(all) {
		t.Error("it came as another")
	}
	if err := s.Settle(t.Context(), h, cache.Settlement{Nonce: cache.NewNonce(), Keep: time.Minute, Result: cache.Result{State: cache.Completed, Frames: all}}); err != nil {
		t.Fatal(err)
	}
	if _, res, err := s.Read(t.Context(), h, len(all)); err != nil || res == nil || text(res.Frames) != text(all) {
		t.Errorf("the result came as another: %v", err)
	}
	if _, _, err := s.Read(t.Context(), h, -1); err == nil || errors.Is(err, cache.ErrAway) {
		t.Errorf("an index below 0: %v", err)
	}
}
