package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/redis/redistest"
)

const lease = 15 * time.Second

func claim(k byte) cache.Claim {
	return cache.Claim{Key: cache.Key{k, k}, Nonce: cache.NewNonce(), Mode: cache.Duplicates, Lease: lease}
}

func mustClaim(t testing.TB, s *Store, c cache.Claim, role cache.Role) cache.Hold {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil || g.Role != role {
		t.Fatalf("claim: %+v, %v, want role %d", g, err, role)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

func frames(texts ...string) (all []cache.Frame) {
	for _, text := range texts {
		all = append(all, cache.Frame{Kind: cache.BodyFrame, Data: []byte(text)})
	}
	return all
}

func answer(texts ...string) cache.Settlement {
	return cache.Settlement{Nonce: cache.NewNonce(), Keep: time.Minute, Debt: time.Minute, Result: cache.Result{State: cache.Completed, Frames: frames(texts...)}}
}

func text(all []cache.Frame) string {
	var b strings.Builder
	for _, f := range all {
		b.Write(f.Data)
	}
	return b.String()
}

// eventually polls for what comes by itself.
func eventually(t testing.TB, within time.Duration, what string, done func() bool) {
	t.Helper()
	for begin := time.Now(); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// B077: an error of the store is no verdict. Nor is a step that it refused
// one that may have had its effect.
func TestRefusalsAreAway(t *testing.T) {
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica. script: 0, on @user_script:1.",
		"OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:1.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"CLUSTERDOWN The cluster is down",
		"CLUSTERDOWN Hash slot not served",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"BUSY Redis is busy running a script.",
		"NOREPLICAS Not enough good replicas to write.",
		"ERR max number of clients reached",
		"ERR anything at all",
	} {
		for _, scheme := range []string{"redis://", "redis+cluster://"} {
			f := newFake(t, "-"+reply+"\r\n")
			s := mustOpen(t, scheme+f.addr, Options{})
			_, claimed := s.Claim(t.Context(), claim(1))
			_, renewed := s.Renew(t.Context(), cache.Hold{Key: claim(1).Key, Fence: 1}, lease)
			_, _, read := s.Read(t.Context(), cache.Hold{Key: claim(1).Key, Fence: 1}, 0)
			for _, err := range []error{
				claimed, renewed, read,
				s.Append(t.Context(), cache.Hold{Key: claim(1).Key, Fence: 1}, 0, frames("a")),
				s.Settle(t.Context(), cache.Hold{Key: claim(1).Key, Fence: 1}, answer("a")),
				s.Owe(t.Context(), cache.Hold{Key: claim(1).Key, Fence: 1}, cache.NewNonce(), time.Minute),
			} {
				if word, _, _ := strings.Cut(reply, " "); !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), word) {
					t.Errorf("%s%s: %v", scheme, reply, err)
				}
			}
			if f.steps.Load() != failuresAway {
				t.Errorf("%s%s: it was asked %d times before it was away", scheme, reply, f.steps.Load())
			}
			if n := waiting(s); n != 0 {
				t.Errorf("%s%s: %d claims are given back that it refused", scheme, reply, n)
			}
			s.Close()
		}
	}
}

// A Redis that was started with us, and still reads its data, is waited for.
func TestALoadingServerIsWaitedFor(t *testing.T) {
	f := newFake(t, "")
	f.loading.Store(3)
	s := mustOpen(t, "redis://"+f.addr, Options{})
	if _, err := s.Secret(t.Context()); err != nil || f.loading.Load() >= 0 {
		t.Errorf("%v, after %d refusals", err, 3-f.loading.Load())
	}
}

func waiting(s *Store) int {
	s.lost.mu.Lock()
	defer s.lost.mu.Unlock()
	return len(s.lost.claims)
}

// A script whose connection ends is sent once, whatever the client's settings
// promise: it may have had its effect.
func TestAStepIsSentOnce(t *testing.T) {
	for _, scheme := range []string{"redis://", "redis+cluster://"} {
		f := newFake(t, "")
		s := mustOpen(t, scheme+f.addr, Options{KeepLost: true})
		_, err := s.Claim(t.Context(), claim(1))
		if !errors.Is(err, cache.ErrAway) {
			t.Errorf("%s: %v", scheme, err)
		}
		if n := f.steps.Load(); n != 1 {
			t.Errorf("%s: it was sent %d times", scheme, n)
		}
		// And the connection that ended is no sign that the server is away.
		for range 5 {
			_, _ = s.Claim(t.Context(), claim(1))
		}
		if n := f.steps.Load(); n != 6 {
			t.Errorf("%s: six claims were sent %d times", scheme, n)
		}
		// What no server knows is sent again, whole: it was not run.
		noScript := "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		f.answer.Store(&noScript)
		_, _ = s.Claim(t.Context(), claim(1))
		if n := f.steps.Load(); n != 8 {
			t.Errorf("%s: by hash and whole it was sent %d times", scheme, n-6)
		}
		s.Close()
	}
}

// Each kind of client has a list of settings of its own. Most of these hide
// behind others when they are missing, so they are looked at one by one.
func TestClientSettings(t *testing.T) {
	f := newFake(t, "*1\r\n+ok\r\n")
	for _, url := range []string{"redis://" + f.addr, "redis+cluster://" + f.addr, "redis+sentinel://127.0.0.1:1/m"} {
		s := mustOpen(t, url, Options{PoolSize: 7})
		node, ok := s.client.universal.(*redis.Client)
		if !ok {
			var err error
			if node, err = s.client.cluster.MasterForKey(t.Context(), fencesName(0)); err != nil {
				t.Fatal(err)
			}
			if n := s.client.cluster.Options().MaxRedirects; n > 0 {
				t.Errorf("%s: the client itself follows %d redirections", url, n)
			}
		}
		o := node.Options()
		if o.MaxRetries > 0 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.PoolSize != 7 || !o.DisableIdentity || o.OnConnect == nil ||
			o.DialTimeout != timeout || o.ReadTimeout != timeout || o.WriteTimeout != timeout || o.PoolTimeout != timeout {
			t.Errorf("%s: retries %d, dials %d, context's time-out %v, pool %d, time-outs %v %v %v %v", url, o.MaxRetries, o.DialerRetries,
				o.ContextTimeoutEnabled, o.PoolSize, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout)
		}
		s.Close()
	}
}

func TestUnreachable(t *testing.T) {
	for _, url := range []string{"redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m"} {
		s := mustOpen(t, url, Options{Oops: func(string, error) {}})
		begin := time.Now()
		_, err := s.Claim(t.Context(), claim(1))
		if took := time.Since(begin); !errors.Is(err, cache.ErrAway) || took > time.Second {
			t.Errorf("%s: refused after %v: %v", url, took, err)
		}
		if n := waiting(s); n != 0 {
			t.Errorf("%s: a claim is given back that could not be sent", url)
		}
		s.Close()
	}
}

// A server that hangs holds up nobody for a second, and after three of them
// nobody at all. It is asked once a second, and comes back by itself.
func TestHangingServer(t *testing.T) {
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	s := mustOpen(t, "redis://"+p.Addr, Options{})
	mustClaim(t, s, claim(1), cache.Lead)
	server.Pause()
	for n := 0; s.away(0) == nil; n++ { // giving them back counts too
		begin := time.Now()
		_, err := s.Claim(t.Context(), claim(2))
		if took := time.Since(begin); !errors.Is(err, cache.ErrAway) || took > time.Second || n == failuresAway {
			t.Fatalf("claim %d took %v: %v", n, took, err)
		}
	}
	// All waits of a step together: for a connection, which another has, for
	// its greeting, for the answer.
	fresh := mustOpen(t, "redis://"+server.Addr, Options{PoolSize: 1})
	took := make(chan time.Duration, 3)
	for range cap(took) {
		go func() {
			begin := time.Now()
			if _, err := fresh.Claim(t.Context(), claim(3)); !errors.Is(err, cache.ErrAway) {
				t.Error(err)
			}
			took <- time.Since(begin)
		}()
	}
	for range cap(took) {
		if d := <-took; d > time.Second {
			t.Errorf("a claim of a server that was never reached took %v", d)
		}
	}
	before, begin := p.Accepted(), time.Now()
	for n := range 500 {
		if _, err := s.Claim(t.Context(), claim(2)); !errors.Is(err, cache.ErrAway) {
			t.Fatalf("claim %d: %v", n, err)
		}
	}
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("500 claims of a store that is away took %v", took)
	}
	// Only the probes, and the notices' connection, go on trying.
	time.AfterFunc(1500*time.Millisecond, server.Continue)
	eventually(t, 5*time.Second, "it comes back", func() bool { return s.away(0) == nil })
	if n := p.Accepted() - before; n > 8 {
		t.Errorf("while it was away there were %d new connections", n)
	}
	// The claims that hung have landed by now, or will: they lead nothing.
	eventually(t, 3*time.Second, "lost claims are given back", func() bool { return waiting(s) == 0 })
	mustClaim(t, s, claim(2), cache.Lead)
}

func TestRefusedServer(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	mustClaim(t, s, claim(1), cache.Lead)
	server.Kill()
	begin := time.Now()
	for range 100 {
		if _, err := s.Claim(t.Context(), claim(2)); !errors.Is(err, cache.ErrAway) {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("100 refused claims took %v", took)
	}
	server.Restart()
	eventually(t, 4*time.Second, "it comes back", func() bool { return s.away(0) == nil })
	mustClaim(t, s, claim(2), cache.Lead)
}

// One that is slow is not away, and clients that leave in the middle of a step
// cost no connections (B079).
func TestSlowServer(t *testing.T) {
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	const pool = 8
	s := mustOpen(t, "redis://"+p.Addr, Options{PoolSize: pool})
	p.Delay(30 * time.Millisecond)
	for range 4 {
		done := make(chan error, 64)
		for n := range cap(done) {
			go func() {
				ctx, cancel := contextFor(5 * time.Millisecond)
				defer cancel()
				_, err := s.Claim(ctx, claim(byte(n)))
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("a slow claim: %v", err)
			}
		}
	}
	if n := p.Accepted(); n > pool+1 {
		t.Errorf("%d connections, of a pool of %d", n, pool)
	}
}

// Real servers in a state in which they refuse.
func TestServersThatRefuse(t *testing.T) {
	for _, c := range []struct {
		name, word string
		set, reset []any
	}{
		{"full", "OOM", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		{"a replica", "READONLY", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		{"without its replicas", "NOREPLICAS", []any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := mustOpen(t, "redis://"+server.Addr, Options{})
			h := mustClaim(t, s, claim(1), cache.Lead)
			server.Do(c.set...)
			for _, err := range []error{
				s.Settle(t.Context(), h, answer("a")),
				func() error { _, err := s.Claim(t.Context(), claim(2)); return err }(),
				func() error { _, err := s.Claim(t.Context(), claim(3)); return err }(),
			} {
				if !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), c.word) {
					t.Errorf("%v", err)
				}
			}
			if s.away(0) == nil {
				t.Error("it is not away")
			}
			server.Do(c.reset...)
			eventually(t, 3*time.Second, "it comes back", func() bool { return s.away(0) == nil })
			if err := s.Settle(t.Context(), h, answer("a")); err != nil {
				t.Errorf("nothing had happened, and then: %v", err)
			}
			mustClaim(t, s, claim(2), cache.Lead)
		})
	}
}

// Whatever is lost on the way, what callers were told is one history. They
// send again themselves.
func TestHistoryWhenRepliesAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores []cache.Store
	for n := range 2 {
		p := redistest.NewProxy(t, server.Addr)
		p.Lose(everyNth(7 + n))
		stores = append(stores, mustOpen(t, "redis://"+p.Addr, Options{KeepLost: true}))
	}
	cachetest.History(t, 120, stores...)
}

func TestHistoryWhenConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	killing(t, server)
	url := "redis://" + server.Addr
	cachetest.History(t, 120, mustOpen(t, url, Options{KeepLost: true}), mustOpen(t, url, Options{KeepLost: true}))
}
