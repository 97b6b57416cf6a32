package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// Many writes, each asked for until its caller knows how it ended or that
// nobody does, while the upstream resets before and after the effect, hangs and
// fails, processes are killed and the store is restarted: no payment is made
// twice, none is lost that was acknowledged, and each unknown is listed.
func TestNodesWritesUnderFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	writesUnderFaults(t, *writesMany, server, func(u *up.Server, changes ...any) []*harness.Gateway {
		a, b := pair(t, u, server.URL(), append(changes, harness.Plain)...) // for so many
		return []*harness.Gateway{a, b}
	})
}

func TestWritesUnderFaults(t *testing.T) {
	t.Parallel()
	writesUnderFaults(t, *writesMany/10, nil, func(u *up.Server, changes ...any) []*harness.Gateway {
		return []*harness.Gateway{harness.Start(t, u.URL(), changes...)}
	})
}

func writesUnderFaults(t *testing.T, many int, server *redistest.Server, start func(*up.Server, ...any) []*harness.Gateway) {
	t.Helper()
	const (
		callers  = 32
		short    = time.Second // the lease
		patience = 5 * time.Second
	)
	seed := seeded(t)
	payee := newPayee(seed, func(r *rand.Rand) fault {
		switch p := r.IntN(1000); {
		case p < 20:
			return fault{before: up.RST}
		case p < 40:
			return fault{after: up.RST}
		case p < 50:
			return fault{after: up.FIN}
		case p < 60: // begun and broken off
			return fault{after: up.Seq(up.Head(201, "Content-Type: application/json", "Content-Length: 100"), up.Raw(`{"payment":`), up.RST)}
		case p < 70: // answered late
			return fault{takes: time.Duration(600+r.IntN(600)) * time.Millisecond}
		case p < 75: // done and never answered
			return fault{after: up.Hang(time.Second)}
		case p < 80: // neither
			return fault{before: up.Hang(time.Second)}
		case p < 95:
			return fault{before: up.Fail(500, "broken")}
		case p < 110:
			return fault{after: up.Fail(500, "broken")}
		case p < 160:
			return fault{before: up.Fail(503, "not now")}
		case p < 170:
			return fault{before: up.Fail(429, "slowly")}
		}
		return fault{}
	})
	u := up.New(t)
	u.Choose(payee.answer)
	nodes := start(u, harness.Config{"store.lease": short.String()}, paying(u, harness.Map{
		"not_executed": []any{503},
		"policy": harness.Map{
			"attempts": 3,
			"backoff":  harness.Map{"base": "5ms", "throttle_base": "5ms", "cap": "50ms"},
			"timeouts": harness.Map{"first_byte": "500ms"},
			"breaker":  harness.Map{"enabled": false},
		},
	}))

	var (
		mu    sync.Mutex
		ended = map[string]told{}
		count = map[string]int{}
		next  atomic.Int64
		wg    sync.WaitGroup
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for caller := range callers {
		wg.Go(func() {
			r, who := chances(seed, "caller", caller), newCustomer(t, patience)
			for {
				n := next.Add(1)
				if n > int64(many) {
					return
				}
				key := fmt.Sprint("write-", n)
				for deadline := time.Now().Add(2 * time.Minute); ; {
					lines := [][]string{nil, {noWait}}[r.IntN(2)]
					o, err := who.pay(nodes[r.IntN(len(nodes))], key, lines...)
					mu.Lock()
					count[fmt.Sprint(o.status, " ", o.code)]++
					mu.Unlock()
					if err == nil && o.final(t, key) {
						mu.Lock()
						ended[key] = o
						mu.Unlock()
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("%s has no end: %d %s %v", key, o.status, o.body, err)
						break
					}
					<-time.After(time.Duration(10+r.IntN(100)) * time.Millisecond)
				}
			}
		})
	}
	var chaos sync.WaitGroup
	begun := time.Now()
	chaos.Go(func() { killNowAndThen(ctx, chances(seed, "faults", 0), server, nodes...) })
	wg.Wait()
	took := time.Since(begun)
	stop()
	chaos.Wait()
	payee.kindly()
	if len(ended) != many {
		t.Errorf("%d of %d have an end", len(ended), many)
	}
	<-time.After(short + 1500*time.Millisecond) // late answers land, leases lapse

	var again sync.WaitGroup
	unknowns := map[string]string{}
	late, free := 0, 0
	work := make(chan string, len(ended))
	for range 8 {
		again.Go(func() {
			who := newCustomer(t, 20*time.Second)
			for key := range work {
				was := ended[key]
				var is told
				harness.Eventually(t, 15*time.Second, "the nodes answer", func() bool {
					o, err := who.pay(nodes[int(key[len(key)-1])%len(nodes)], key)
					is = o
					return err == nil && o.final(t, key)
				})
				mu.Lock()
				switch {
				case is.status == 424:
					unknowns[is.record] = key
					if was.status != 424 && was.recorded {
						t.Errorf("%s was %d %s, and is unknown", key, was.status, was.body)
					}
				case was.status == 424 && is.again: // its late answer has landed
					late++
				case was.status == 424: // its leader could say at last that it had sent nothing
					free++
				case is.status != was.status || is.body != was.body && is.status == 201 || !is.again && is.status == 201:
					t.Errorf("%s was %d %s, and is %d %s %s", key, was.status, was.body, is.status, is.outcome, is.body)
				}
				mu.Unlock()
			}
		})
	}
	for key := range ended {
		work <- key
	}
	close(work)
	again.Wait()

	payee.wantOnce(t)
	done := payee.payments()
	for key, o := range ended {
		if o.status == 201 && (len(done[key]) != 1 || done[key][0].id != o.id) {
			t.Errorf("%s was answered %q, and done is %v", key, o.id, done[key])
		}
	}
	for _, g := range nodes {
		wantUnknowns(t, g, unknowns)
		if n := g.Metrics().Sum("oncegate_transport_replays_total"); n != 0 {
			t.Errorf("%v transport replays", n)
		}
	}
	printed := recordsCommand(t, nodes[0], "ls", "--state", "unknown", "--limit", "0")
	for record := range unknowns {
		if !strings.Contains(printed, record) {
			t.Errorf("the command does not list %s", record)
		}
	}
	t.Logf("%d writes in %v, %d of them unknown in the end, %d settled by a late answer, %d shown not to have been sent; the answers: %v", many, took, len(unknowns), late, free, count)
	if len(unknowns) == 0 || count["424 idempotency_outcome_unknown"] == 0 {
		t.Error("no fault had any effect")
	}
}

// final says that there is no more to ask: how the write ended is told, or that
// nobody knows.
func (o told) final(t *testing.T, key string) bool {
	switch o.status {
	case 201, 424, 410:
		return true
	case 502:
		return o.code == "response_lost"
	case 409, 429, 503:
		return false
	}
	t.Errorf("%s: %d %s %s", key, o.status, o.outcome, o.body)
	return true
}

// killNowAndThen kills a node every few seconds, and between them restarts the
// store, until ctx ends. Then all are there.
func killNowAndThen(ctx context.Context, r *rand.Rand, server *redistest.Server, nodes ...*harness.Gateway) {
	for n := 0; ; n++ {
		select {
		case <-time.After(time.Duration(1500+r.IntN(2500)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
		if server != nil && n%3 == 2 {
			server.Restart()
			continue
		}
		g := nodes[r.IntN(len(nodes))]
		g.Kill9()
		g.Restart()
	}
}
