package policy

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestLimitMoves(t *testing.T) {
	c := Concurrency{Start: 100, Min: 16, Max: 120}
	var l limit
	step := func(at time.Duration, congested bool) int {
		l.inflight++ // as many as before leave
		l.leave(c, new(line), congested, at)
		return l.most(c)
	}
	l.most(c)
	// Down by a tenth at most once a second, to the least there is.
	for i, want := range []int{90, 90, 81, 81, 72, 72, 65} {
		if got := step(time.Duration(i)*limitStep/2, true); got != want {
			t.Errorf("congested, after %d halves of a second: %d, want %d", i, got, want)
		}
	}
	at := time.Minute
	for range 40 {
		at += limitStep
		step(at, true)
	}
	if l.most(c) != 16 {
		t.Errorf("at the least %d", l.most(c))
	}
	// Up by a tenth a second, but only while half of it is used.
	for range 10 {
		at += limitStep
		step(at, false)
	}
	if l.most(c) != 16 {
		t.Errorf("%d although it is not used", l.most(c))
	}
	l.inflight = 8
	for _, want := range []int{17, 17, 19, 19, 19, 19} { // at 19 eight are less than half
		at += limitStep / 2
		if got := step(at, false); got != want {
			t.Errorf("half used: %d, want %d", got, want)
		}
	}
	l.inflight = 60
	for range 60 {
		at += limitStep
		step(at, false)
	}
	if l.most(c) != 120 {
		t.Errorf("at the most %d", l.most(c))
	}
	l = limit{}
	if l.most(Concurrency{Start: 100, Min: 16, Max: 4}) != 4 {
		t.Errorf("it starts at %d, above the most", l.most(c))
	}
	l.inflight = 1
	if l.leave(Concurrency{Start: 100, Min: 16, Max: 4}, new(line), true, 0); l.size != 4 {
		t.Errorf("it gives way upwards, to %v", l.size)
	}
	l = limit{size: 120, raised: at, lowered: -limitStep}
	// What raised it a moment ago does not keep it from giving way.
	if got := step(at+limitStep/10, true); got != 108 {
		t.Errorf("%d", got)
	}
}

func TestCongested(t *testing.T) {
	for name, c := range map[string]struct {
		failure *Failure
		want    bool
	}{
		"success":     {nil, false},
		"429":         {&Failure{Phase: Answered, Status: 429, Throttle: true}, true},
		"503":         {&Failure{Phase: Answered, Status: 503}, true},
		"529":         {&Failure{Phase: Answered, Status: 529}, true},
		"in-band 429": {&Failure{Phase: Broken, BadAnswer: true, Status: 429, Throttle: true}, true},
		"time-out":    {&Failure{Phase: Sent, Timeout: true}, true},
		"quota":       {&Failure{Phase: Answered, Status: 429, Throttle: true, Quota: true}, false},
		"500":         {&Failure{Phase: Answered, Status: 500}, false},
		"reset":       {&Failure{Phase: Sent}, false},
		"cancelled":   {&Failure{Phase: Sent, Cancelled: true, Timeout: true}, false},
	} {
		if got := c.failure.congested(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// For any order of events: no more are under way than the limit, nobody waits
// while a place is free, none is lost, whoever has least under way is next, and
// within a line the first one.
func TestLimitAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Concurrency{Start: rapid.IntRange(1, 6).Draw(t, "start"), Min: 1, Max: 6}
		var l limit
		var at time.Duration
		names := []string{"a", "b", "c"}
		inside, waiting := map[string]int{}, map[string][]*waiter{}
		count := func() (in, out int) {
			for _, n := range names {
				in, out = in+inside[n], out+len(waiting[n])
			}
			return in, out
		}
		lines := map[string]*line{}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			at += time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond
			who := rapid.SampledFrom(names).Draw(t, "who")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				in, out := count()
				if n := l.enter(c, who, at); n != nil {
					if out > 0 || in >= l.most(c) {
						t.Fatal("one overtook those who wait, or the limit")
					}
					lines[who] = n
					inside[who]++
				} else if w := l.join(c, who); w != nil {
					lines[who] = w.line
					waiting[who] = append(waiting[who], w)
				} else {
					for _, n := range names {
						if len(waiting[n]) > len(waiting[who])+1 {
							t.Fatalf("%d of %s wait, and the queue is full for %s with %d", len(waiting[n]), n, who, len(waiting[who]))
						}
					}
					if out < l.most(c) {
						t.Fatal("the queue is shorter than the limit")
					}
				}
			case 2:
				if inside[who] > 0 {
					inside[who]--
					l.leave(c, lines[who], rapid.Bool().Draw(t, "congested"), at)
				}
			case 3:
				if n := len(waiting[who]); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					if l.abandon(waiting[who][i]) {
						t.Fatal("a turn was given and not taken")
					}
					waiting[who] = slices.Delete(waiting[who], i, i+1)
				}
			}
			given := map[string]bool{}
			for _, n := range names {
				for i := 0; i < len(waiting[n]); {
					select {
					case <-waiting[n][i].turn:
					default:
						i++
						continue
					}
					if waiting[n][i].given {
						if i > 0 {
							t.Fatal("one was overtaken by another of the same principal")
						}
						inside[n]++
						given[n] = true
					}
					waiting[n] = slices.Delete(waiting[n], i, i+1)
				}
			}
			for n := range given {
				for _, o := range names {
					if len(waiting[o]) > 0 && inside[o]+1 < inside[n] {
						t.Fatalf("%s got a turn with %d under way, %s waits with %d", n, inside[n]-1, o, inside[o])
					}
				}
			}
			in, out := count()
			if in != l.inflight || out != l.waiting {
				t.Fatalf("%d under way and %d waiting, counted %d and %d", in, out, l.inflight, l.waiting)
			}
			if out > 0 && in == 0 {
				t.Fatal("somebody waits, and nobody is under way")
			}
		}
	})
}

// While others wait nobody takes more than half of the limit, nor can they
// keep others out of the queue.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		a.Config.Concurrency = Concurrency{Start: 10, Min: 1, Max: 10}
		start := time.Now()
		type ran struct {
			who string
			at  time.Duration
			Result
		}
		done := make(chan ran, 200)
		call := func(who string, d time.Duration) {
			go func() {
				var at time.Duration
				r := new(Engine).Do(t.Context(), Call{Principal: who, Targets: []*Target{a}}, func(context.Context, Attempt) *Failure {
					at = time.Since(start)
					time.Sleep(d)
					return nil
				})
				done <- ran{who, at, r}
			}()
			synctest.Wait()
		}
		for range 30 { // ten go, ten wait, ten are refused
			call("greedy", time.Second)
		}
		for range 5 {
			call("modest", time.Second)
		}
		second, refused := map[string]int{}, map[string]int{}
		for range 35 {
			r := <-done
			if r.Reason == Overloaded {
				refused[r.who]++
			} else if r.at == time.Second {
				second[r.who]++
			}
		}
		if second["modest"] != 5 || second["greedy"] != 5 || refused["modest"] != 0 || refused["greedy"] != 15 {
			t.Errorf("in the second round %v, refused %v", second, refused)
		}
	})
}

// Principals come and go: what they leave behind is bounded.
func TestLinesAreBounded(t *testing.T) {
	var l limit
	c := Defaults().Concurrency
	for i := range 10_000 {
		n := l.enter(c, string(rune(i)), 0)
		l.leave(c, n, false, 0)
	}
	if len(l.lines) > idleLines+1 {
		t.Errorf("%d lines", len(l.lines))
	}
}

// slow is an upstream that takes its time, and counts how many it serves.
type slow struct {
	takes     time.Duration
	now, most int
	guard     chan struct{}
}

func newSlow(takes time.Duration) *slow { return &slow{takes: takes, guard: make(chan struct{}, 1)} }

func (s *slow) count(d int) {
	s.guard <- struct{}{}
	s.now += d
	s.most = max(s.most, s.now)
	<-s.guard
}

func (s *slow) try(ctx context.Context, _ Attempt) *Failure {
	s.count(1)
	defer s.count(-1)
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return &Failure{Phase: Sent, Cancelled: true}
	}
}

// With the limit used up as many wait, for their turn or five seconds; the
// rest are refused at once.
func TestQueueAtTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		takes, left   time.Duration
		served, late  int           // late: refused after waiting
		waited        time.Duration // by those
		refusedAtOnce int
	}{
		"quick":               {time.Second, time.Minute, 20, 0, 0, 5},
		"slow":                {time.Minute, time.Minute, 10, 10, queueWait, 5},
		"a tenth of the time": {time.Minute, 20 * time.Second, 10, 10, 2 * time.Second, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := target("a", 1)
				a.Config.Concurrency = Concurrency{Start: 10, Min: 1, Max: 10}
				s := newSlow(c.takes)
				start := time.Now()
				type came struct {
					Result
					after time.Duration
				}
				results := make(chan came, 25)
				for range cap(results) {
					go func() {
						r := new(Engine).Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}, Readers: patient(c.left)}, s.try)
						results <- came{r, time.Since(start)}
					}()
				}
				synctest.Wait()
				if len(results) != c.refusedAtOnce {
					t.Errorf("%d were refused at once", len(results))
				}
				served, late := 0, 0
				for range cap(results) {
					r := <-results
					switch {
					case r.Reason == "":
						served++
					case r.Reason != Overloaded || r.Status != 503 || !r.ShouldRetry || r.RetryAfter != time.Second || r.Attempts != 0 || r.Memo != 0:
						t.Errorf("%+v", r)
					case r.after == c.waited:
						late++
					case r.after != 0:
						t.Errorf("refused after %v", r.after)
					}
				}
				if served != c.served || c.waited > 0 && late != c.late || s.most != 10 {
					t.Errorf("%d served, %d refused late, %d at once", served, late, s.most)
				}
				if g := a.gates.Load(); g.limit.inflight != 0 || g.limit.waiting != 0 || len(g.limit.queued) != 0 {
					t.Errorf("left behind: %+v", g.limit)
				}
			})
		})
	}
}

// Who leaves while waiting leaves no trace, neither in the queue nor of a turn
// that came as they left.
func TestWaitersThatLeave(t *testing.T) {
	for _, together := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := target("a", 1)
			a.Config.Concurrency = Concurrency{Start: 1, Min: 1, Max: 1}
			s := newSlow(time.Second)
			go new(Engine).Do(t.Context(), Call{Targets: []*Target{a}}, s.try)
			synctest.Wait()
			w := patient(time.Hour)
			done := make(chan Result, 1)
			go func() { done <- new(Engine).Do(t.Context(), Call{Targets: []*Target{a}, Readers: w}, s.try) }()
			leaves := 500 * time.Millisecond
			if together {
				leaves = time.Second
			}
			time.Sleep(leaves)
			close(w.gone)
			if r := <-done; r.Reason != ClientGone && !(together && r.Attempts == 1) {
				t.Errorf("%+v", r)
			}
			time.Sleep(2 * time.Second)
			if res := new(Engine).Do(t.Context(), Call{Targets: []*Target{a}}, s.try); res.Reason != "" || a.gates.Load().limit.inflight != 0 {
				t.Errorf("%+v, %d under way", res, a.gates.Load().limit.inflight)
			}
		})
	}
}

// A full target is left for its fallback when its queue is full or the wait
// was in vain; a retry that finds it full gives the upstream's own error.
func TestFullTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := target("a", 1), target("b", 1)
		a.Config.Concurrency = Concurrency{Start: 1, Min: 1, Max: 1}
		s := newSlow(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		go new(Engine).Do(ctx, Call{Targets: []*Target{a}}, s.try)
		synctest.Wait()
		u := scripted(map[string][]answer{"b": {fine}})
		start := time.Now()
		if res, went := do(t, new(Engine), Call{Targets: []*Target{a, b}}, u); res.Reason != "" || !slices.Equal(went, []string{"b0"}) || time.Since(start) != queueWait {
			t.Errorf("%+v went %v after %v", res, went, time.Since(start))
		}
		cancel()
		synctest.Wait()

		// While its one attempt backs off another call takes the place.
		done := make(chan Result, 1)
		go func() {
			done <- (&Engine{Rand: dice["middle"]}).Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}}, func(context.Context, Attempt) *Failure {
				return says(500).failure(time.Now())
			})
		}()
		time.Sleep(100 * time.Millisecond)
		go new(Engine).Do(t.Context(), Call{Targets: []*Target{a}}, newSlow(time.Minute).try)
		if r := <-done; r.Reason != Overloaded || r.Failure == nil || r.Failure.Status != 500 || r.Attempts != 1 || r.ShouldRetry || r.Memo != memoShort {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
	})
}

// It is told when the limit begins to hold callers back, once, and when it no
// longer does.
func TestLimitEvents(t *testing.T) {
	g := &gate{cfg: Config{Concurrency: Concurrency{Start: 10, Min: 2, Max: 10}}.Or(Defaults())}
	var heard []EventKind
	leave := func(at time.Duration, f *Failure) {
		var n news
		tk := ticket{gate: g, gen: g.breaker.gen, line: new(line)}
		tk.leave(f, g.epoch.Add(at), dice["middle"], &n)
		for _, e := range n.events[:n.n] {
			heard = append(heard, e.Kind)
		}
	}
	busy := &Failure{Phase: Answered, Status: 429, Throttle: true}
	g.limit.most(g.cfg.Concurrency)
	g.limit.inflight = 5
	leave(0, busy) // 9, and four are in use
	g.limit.inflight = 10
	leave(time.Second, busy) // 8 for nine
	leave(2*time.Second, busy)
	leave(2*time.Second, nil)
	g.limit.inflight = 3
	leave(2*time.Second, nil)
	leave(2*time.Second, nil)
	if want := []EventKind{LimitLowered, LimitBack}; !slices.Equal(heard, want) {
		t.Errorf("%v, want %v", heard, want)
	}
}

// A fallback whose queue is full, too, is tried once: asking it again and again
// would never end, for nothing changes meanwhile.
func TestFullFallbackIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := once("a"), target("b", 1)
		b.Config.Concurrency = Concurrency{Max: 1}
		s := newSlow(4 * time.Second)
		for range 2 { // one goes, one waits
			go new(Engine).Do(t.Context(), Call{Targets: []*Target{b}}, s.try)
			synctest.Wait()
		}
		start := time.Now()
		u := scripted(map[string][]answer{"a": {says(503)}})
		if res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a, b}}, u); res.Reason != AttemptsExhausted || res.Attempts != 1 || time.Since(start) != 0 {
			t.Errorf("%+v after %v", res, time.Since(start))
		}
		time.Sleep(time.Minute)
	})
}

// An attempt that panics gives back all that it held.
func TestPanicLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		func() {
			defer func() { _ = recover() }()
			new(Engine).Do(t.Context(), Call{Targets: []*Target{a}}, func(context.Context, Attempt) *Failure { panic("the provider's fault") })
		}()
		if s := a.Status(time.Now()); s.InFlight != 0 || s.Streak != 0 || s.Budget != 20 {
			t.Errorf("%+v", s)
		}
	})
}
