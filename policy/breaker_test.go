package policy

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// What an attempt tells of its target's health.
func TestOutcome(t *testing.T) {
	answered := func(status int) *Failure { return &Failure{Phase: Answered, Status: status} }
	inside := func(phase Phase, status int) *Failure {
		return &Failure{Phase: phase, Status: status, BadAnswer: true}
	}
	for name, c := range map[string]struct {
		failure *Failure
		want    outcome
	}{
		"success":                    {nil, healthy},
		"dial refused":               {&Failure{Phase: NotSent}, unhealthy},
		"no answer":                  {&Failure{Phase: Sent}, unhealthy},
		"no byte in time":            {&Failure{Phase: Sent, Timeout: true}, unhealthy},
		"idle":                       {&Failure{Phase: Broken, Timeout: true}, unhealthy},
		"cut":                        {&Failure{Phase: Broken}, unhealthy},
		"cut after content":          {&Failure{Phase: Broken, Committed: true}, unhealthy},
		"an unreadable 200":          {inside(Answered, 0), unhealthy},
		"an error event":             {inside(Broken, 500), unhealthy},
		"an error event, 429":        {inside(Broken, 429), throttled},
		"an error event, 400":        {inside(Broken, 400), healthy},
		"client gone":                {&Failure{Phase: Sent, Cancelled: true}, neutral},
		"client gone in mid-stream":  {&Failure{Phase: Broken, Cancelled: true, Committed: true}, neutral},
		"spent quota":                {&Failure{Phase: Answered, Status: 429, Quota: true}, throttled},
		"payment required":           {&Failure{Phase: Answered, Status: 402, Quota: true}, healthy},
		"a 400 whose body broke off": {&Failure{Phase: Broken, Status: 400}, healthy},
		"a 503 whose body broke off": {&Failure{Phase: Broken, Status: 503}, unhealthy},
		"400":                        {answered(400), healthy},
		"401":                        {answered(401), healthy},
		"404":                        {answered(404), healthy},
		"408":                        {answered(408), unhealthy},
		"429":                        {answered(429), throttled},
		"500":                        {answered(500), unhealthy},
		"501":                        {answered(501), healthy},
		"503":                        {answered(503), unhealthy},
		"505":                        {answered(505), healthy},
		"529":                        {answered(529), unhealthy},
	} {
		if got := c.failure.outcome(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// drive runs outcomes through a breaker, a fixed time apart, and says after
// how many it opened, and by which rule; 0: it did not.
func drive(c Breaker, apart time.Duration, outcomes ...outcome) (int, rule) {
	var b breaker
	for i, o := range outcomes {
		gen, _ := b.enter()
		if ch, ok := b.leave(c, gen, o, 0, time.Duration(i)*apart, dice["middle"]); ok {
			return i + 1, ch.rule
		}
	}
	return 0, ""
}

func repeat(n int, o ...outcome) (all []outcome) {
	for range n {
		all = append(all, o...)
	}
	return all
}

func TestBreakerOpens(t *testing.T) {
	const ok, bad = healthy, unhealthy
	for name, c := range map[string]struct {
		outcomes []outcome
		apart    time.Duration
		after    int
		by       rule
	}{
		"twenty in a row":                       {repeat(30, bad), time.Millisecond, 20, byStreak},
		"nineteen":                              {repeat(19, bad), time.Millisecond, 0, ""},
		"nineteen, and a success, and nineteen": {slices.Concat(repeat(60, ok), repeat(19, bad), repeat(1, ok), repeat(19, bad)), time.Millisecond, 0, ""},
		"five over two seconds":                 {repeat(30, bad), 500 * time.Millisecond, 5, byLowTraffic},
		"five over less":                        {repeat(5, bad), 499 * time.Millisecond, 0, ""},
		"six over two seconds":                  {repeat(6, bad), 400 * time.Millisecond, 6, byLowTraffic},
		"four over an hour":                     {repeat(4, bad), 20 * time.Minute, 0, ""},
		"half of twenty":                        {repeat(10, ok, bad), 400 * time.Millisecond, 20, byRate},
		"half of nineteen":                      {repeat(9, bad, ok), 400 * time.Millisecond, 0, ""},
		"a third":                               {repeat(100, ok, ok, bad), 10 * time.Millisecond, 0, ""},
		"half, too thin":                        {repeat(100, ok, bad), 600 * time.Millisecond, 0, ""},
		"old successes hide a rate":             {slices.Concat(repeat(100, ok), repeat(19, bad)), 90 * time.Millisecond, 0, ""},
		"throttling":                            {repeat(100, throttled), 100 * time.Millisecond, 0, ""},
		"clients that leave":                    {repeat(100, neutral), 100 * time.Millisecond, 0, ""},
		"throttling breaks no streak":           {repeat(20, bad, throttled, neutral), time.Millisecond, 58, byStreak},
	} {
		c1 := Defaults().Breaker
		if name == "old successes hide a rate" {
			c1.LowTraffic.Consecutive = 100
		}
		if after, by := drive(c1, c.apart, c.outcomes...); after != c.after || by != c.by {
			t.Errorf("%s: opened after %d by %q, want %d by %q", name, after, by, c.after, c.by)
		}
	}
	off := Defaults().Breaker
	off.Switch = Off
	if after, _ := drive(off, time.Millisecond, repeat(1000, bad)...); after != 0 {
		t.Error("a breaker that is off opened")
	}
}

// How long it stays open: 1, 2, 4, 8, 15 s, each times uniform(0.8, 1.2);
// after it closed 1 s again; no shorter than the upstream asked, a 429 adds
// nothing.
func TestBreakerCooldown(t *testing.T) {
	c := Defaults().Breaker
	for name, rnd := range dice {
		factor := 0.8 + 0.4*rnd()
		var b breaker
		at := time.Duration(0)
		fail := func(o outcome, told time.Duration) time.Duration {
			t.Helper()
			for range 20 {
				gen, _ := b.enter()
				if ch, ok := b.leave(c, gen, o, told, at, rnd); ok {
					if ch.to != Open || b.look(c, at) != ch.open || b.look(c, at+ch.open-1) != 1 || b.look(c, at+ch.open) != 0 {
						t.Fatalf("%s: %+v, and %v are left", name, ch, b.look(c, at))
					}
					at += ch.open
					return ch.open
				}
			}
			t.Fatalf("%s: it did not open", name)
			return 0
		}
		for round := range 2 {
			for i, want := range []float64{1, 2, 4, 8, 15, 15, 15} {
				if got := fail(unhealthy, 0); got != time.Duration(want*second*factor) {
					t.Errorf("%s, round %d: opening %d lasted %v, want %v s times %v", name, round, i, got, want, factor)
				}
			}
			if got := fail(throttled, 40*time.Second); got != 40*time.Second {
				t.Errorf("%s: %v after a probe was told 40 s", name, got)
			}
			if got := fail(throttled, 0); got != time.Duration(15*second*factor) {
				t.Errorf("%s: %v after a throttled probe", name, got)
			}
			for range 3 { // a throttled probe does not double, so nor do three
				gen, _ := b.enter()
				b.leave(c, gen, healthy, 0, at, rnd)
			}
			if b.state != Closed {
				t.Fatalf("%s: %v after three good probes", name, b.state)
			}
		}
		if got := fail(unhealthy, time.Hour); got != holdMost {
			t.Errorf("%s: %v after an hour was asked for", name, got)
		}
	}
}

// For any order of events: never more probes than allowed, none while it is
// open, no late result moves it, and it never wedges: after enough time a
// probe may go, and three good ones close it.
func TestBreakerAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Defaults().Breaker
		c.Consecutive, c.Probes = rapid.IntRange(1, 5).Draw(t, "consecutive"), rapid.IntRange(1, 4).Draw(t, "probes")
		var b breaker
		var at time.Duration
		type flight struct {
			gen   uint32
			probe bool
		}
		var air []flight
		draw := func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "rnd") }
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at += time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause"))
			if rapid.Bool().Draw(t, "enter") {
				was := b.state
				if wait := b.look(c, at); wait > 0 {
					if was == Closed {
						t.Fatal("a closed breaker refuses")
					}
					continue
				}
				if was == Open && at < b.until {
					t.Fatal("an open breaker lets one in")
				}
				gen, changed := b.enter()
				if changed != (was == Open) {
					t.Fatal("a change was not told")
				}
				air = append(air, flight{gen, b.state == HalfOpen})
				probes := 0
				for _, f := range air {
					if f.probe && f.gen == b.gen {
						probes++
					}
				}
				if probes > c.Probes {
					t.Fatalf("%d probes are in flight", probes)
				}
				continue
			}
			if len(air) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(air)-1).Draw(t, "which")
			f := air[i]
			air = slices.Delete(air, i, i+1)
			before := b
			o := rapid.SampledFrom([]outcome{healthy, unhealthy, throttled, neutral}).Draw(t, "outcome")
			ch, changed := b.leave(c, f.gen, o, 0, at, draw)
			if f.gen != before.gen && (changed || b != before) {
				t.Fatal("a late result moved the breaker")
			}
			if changed && ch.to == Open && b.until-at > 18*time.Second {
				t.Fatalf("open for %v", b.until-at)
			}
			if o == neutral && b.state != before.state {
				t.Fatal("a cancelled attempt moved the breaker")
			}
		}
		for _, f := range air { // all that is in flight is cancelled
			b.leave(c, f.gen, neutral, 0, at, draw)
		}
		for range c.Probes {
			if at += 20 * time.Second; b.look(c, at) > 0 {
				t.Fatalf("wedged: %+v", b)
			}
			gen, _ := b.enter()
			b.leave(c, gen, healthy, 0, at, draw)
		}
		if b.state != Closed {
			t.Fatalf("not closed after good probes: %+v", b)
		}
	})
}

// once is a target whose calls make one attempt.
func once(name string) *Target {
	a := target(name, 1)
	a.Config.Attempts = 1
	return a
}

// trip opens the breaker of a target: 20 failures in a row.
func trip(t *testing.T, e *Engine, a *Target) {
	t.Helper()
	for range 20 {
		do(t, e, Call{Kind: Completion, Targets: []*Target{a}}, scripted(map[string][]answer{a.Name: {says(503)}}))
	}
}

// stateOf is that of a target's breaker.
func stateOf(a *Target) State {
	g := a.gates.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.state
}

func TestCase26Breaker(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			a := once("a")
			var events []Event
			call := Call{Kind: Completion, Targets: []*Target{a}, On: func(e Event) { events = append(events, e) }}
			for range 20 {
				time.Sleep(40 * time.Millisecond)
				if res, _ := do(t, e, call, scripted(map[string][]answer{"a": {says(503)}})); res.Failure == nil || res.Reason != AttemptsExhausted {
					t.Fatalf("%+v", res)
				}
			}
			opened := time.Now()
			good := scripted(map[string][]answer{"a": {{status: 200, takes: 10 * time.Millisecond}}})
			res, _ := do(t, e, call, good)
			if res.Reason != CircuitOpen || res.Status != 503 || res.Attempts != 0 || !res.ShouldRetry ||
				res.RetryAfter < time.Second || res.RetryAfter > 7*time.Second || res.Memo != 0 || time.Since(opened) != 0 {
				t.Errorf("call 21: %+v", res)
			}
			for res.Reason == CircuitOpen {
				time.Sleep(10 * time.Millisecond)
				res, _ = do(t, e, call, scripted(map[string][]answer{"a": {fine}}))
			}
			if open := time.Since(opened); open < 800*time.Millisecond || open > 1210*time.Millisecond {
				t.Errorf("open for %v", open)
			}
			// That was the first of three probes. Of four at once one is refused.
			results := make(chan Result, 4)
			for range cap(results) {
				go func() {
					results <- e.Do(t.Context(), call, func(context.Context, Attempt) *Failure {
						time.Sleep(10 * time.Millisecond)
						return nil
					})
				}()
			}
			synctest.Wait()
			if refused := <-results; refused.Reason != CircuitOpen || refused.RetryAfter < time.Second || refused.RetryAfter > 7*time.Second || !refused.ShouldRetry {
				t.Errorf("the fourth at once: %+v", refused)
			}
			for range cap(results) - 1 {
				if r := <-results; r.Reason != "" {
					t.Errorf("a probe: %+v", r)
				}
			}
			want := []EventKind{BreakerOpened, BreakerHalfOpen, BreakerClosed}
			var kinds []EventKind
			for _, e := range events {
				kinds = append(kinds, e.Kind)
			}
			if !slices.Equal(kinds, want) || events[0].Cause != "503" || events[0].Rule != "consecutive" || events[0].Target != a ||
				events[0].For < 800*time.Millisecond || events[0].For > 1200*time.Millisecond {
				t.Errorf("events %+v", events)
			}
		})
	})
}

func TestCase27ThrottledProbe(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			a := once("a")
			trip(t, e, a)
			time.Sleep(1200 * time.Millisecond)
			call := Call{Kind: Completion, Targets: []*Target{a}}
			if res, _ := do(t, e, call, scripted(map[string][]answer{"a": {says(429, "Retry-After", "3")}})); res.Attempts != 1 {
				t.Fatalf("the probe: %+v", res)
			}
			if res, _ := do(t, e, call, scripted(nil)); res.Reason != CircuitOpen || res.RetryAfter < 3*time.Second {
				t.Errorf("after it: %+v", res)
			}
			time.Sleep(3*time.Second - 1)
			if res, _ := do(t, e, call, scripted(nil)); res.Reason != CircuitOpen {
				t.Errorf("just before three seconds: %+v", res)
			}
			time.Sleep(time.Nanosecond)
			if res, _ := do(t, e, call, scripted(map[string][]answer{"a": {says(503)}})); res.Attempts != 1 {
				t.Fatalf("the next probe: %+v", res)
			}
			open := a.gates.Load().breaker.look(Defaults().Breaker, a.gates.Load().since(time.Now()))
			if open < 1600*time.Millisecond || open > 2400*time.Millisecond {
				t.Errorf("after one failed probe it is open for %v: the throttled one doubled it", open)
			}
		})
	})
}

// B050: fifty at once while it is half-open, a probe whose client leaves, and
// one that is answered 404.
func TestB050HalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := once("a")
		e := &Engine{Rand: dice["middle"]}
		trip(t, e, a)
		late := make(chan struct{})
		time.Sleep(1200 * time.Millisecond)
		made, refused := make(chan struct{}, 50), make(chan Result, 50)
		ctx, cancel := context.WithCancel(t.Context())
		for range 50 {
			go func() {
				res := e.Do(ctx, Call{Kind: Completion, Targets: []*Target{a}}, func(ctx context.Context, _ Attempt) *Failure {
					made <- struct{}{}
					select {
					case <-late:
					case <-ctx.Done():
					}
					return &Failure{Phase: Sent, Cancelled: true}
				})
				if res.Attempts == 0 {
					refused <- res
				}
			}()
		}
		synctest.Wait()
		if len(made) != 3 || len(refused) != 47 {
			t.Fatalf("%d probes, %d refused", len(made), len(refused))
		}
		for range cap(refused) - 3 {
			if r := <-refused; r.Reason != CircuitOpen || r.RetryAfter < time.Second {
				t.Fatalf("%+v", r)
			}
		}
		cancel()
		synctest.Wait()
		// Their slots are free again, and a 404 is an answer like another.
		for range 3 {
			if res, _ := do(t, e, Call{Kind: Completion, Targets: []*Target{a}}, scripted(map[string][]answer{"a": {says(404)}})); res.Attempts != 1 {
				t.Errorf("%+v", res)
			}
		}
		if s := stateOf(a); s != Closed {
			t.Errorf("%v after three answers", s)
		}
	})
}

// The failures of calls that were sent before it opened, and come in while it
// is half-open, neither reopen nor wedge it.
func TestLateResultOfAnEarlierGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := once("a")
		e := &Engine{Rand: dice["middle"]}
		for range 10 {
			go e.Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}}, func(context.Context, Attempt) *Failure {
				time.Sleep(1500 * time.Millisecond)
				return &Failure{Phase: Sent}
			})
		}
		synctest.Wait()
		trip(t, e, a)
		time.Sleep(1200 * time.Millisecond)
		slow := Call{Kind: Completion, Targets: []*Target{a}}
		done := make(chan Result, 1)
		go func() {
			done <- e.Do(t.Context(), slow, func(context.Context, Attempt) *Failure {
				time.Sleep(time.Second)
				return nil
			})
		}()
		time.Sleep(500 * time.Millisecond) // all ten have failed
		if s := stateOf(a); s != HalfOpen {
			t.Errorf("%v after late failures", s)
		}
		if r := <-done; r.Reason != "" {
			t.Errorf("%+v", r)
		}
	})
}

// A call whose target's breaker opens under it gets the upstream's own error,
// and makes no further attempt there; with a fallback it goes there at once.
func TestBreakerOpensUnderACall(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := target("a", 1), target("b", 1)
			a.Config.Breaker.Consecutive = 2
			call := Call{Kind: Completion, Targets: []*Target{a}}
			want := []string{"a0", "a0"}
			if fallback {
				call.Targets, want = append(call.Targets, b), []string{"a0", "a0", "b0"}
			}
			u := scripted(map[string][]answer{"a": {says(500)}, "b": {fine}})
			res, went := do(t, new(Engine), call, u)
			if !slices.Equal(went, want) || !fallback && (res.Reason != CircuitOpen || res.Failure.Status != 500 || res.Memo != memoShort || res.ShouldRetry) {
				t.Errorf("%+v went %v", res, went)
			}
			res, went = do(t, new(Engine), call, u)
			if fallback != slices.Equal(went, []string{"b0"}) || !fallback && res.Reason != CircuitOpen {
				t.Errorf("the next call: %+v went %v", res, went)
			}
		})
	}
}

// Of an open breaker and a hold, a call waits for the hold, if that ends soon.
func TestOpenBreakerBesideAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := once("a"), once("b")
		e := &Engine{Rand: dice["middle"]}
		a.Config.Breaker.Cooldown, a.Config.Breaker.CooldownCap = time.Minute, time.Minute
		trip(t, e, a)
		free := time.Now().Add(3 * time.Second)
		b.hold(0).put(free, free, 429)
		u := scripted(map[string][]answer{"b": {fine}})
		if res, _ := do(t, e, Call{Kind: Completion, Targets: []*Target{a, b}, Readers: patient(time.Minute)}, u); res.Reason != "" || u.attempts[0].at.Before(free) {
			t.Errorf("%+v", res)
		}
	})
}

func TestContextLengthFallsBackToALargerWindow(t *testing.T) {
	long := answer{status: 400, body: "context"}
	for name, c := range map[string]struct {
		windows []int
		went    []string
		status  int
	}{
		"a larger one":          {[]int{8000, 4000, 8000, 0, 16000}, []string{"a0", "e0"}, 0},
		"none":                  {[]int{8000, 8000}, []string{"a0"}, 400},
		"the first is unknown":  {[]int{0, 1000000}, []string{"a0"}, 400},
		"the second is unknown": {[]int{8000, 0}, []string{"a0"}, 400},
		"again too long":        {[]int{8000, 16000, 12000, 32000}, []string{"a0", "b0", "d0"}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var targets []*Target
				for i, w := range c.windows {
					a := target(string(rune('a'+i)), 1)
					a.Context = w
					targets = append(targets, a)
				}
				var went []string
				res := new(Engine).Do(t.Context(), Call{Kind: Completion, Targets: targets}, func(_ context.Context, a Attempt) *Failure {
					went = append(went, a.Target.Name+"0")
					if a.Index == len(targets)-1 && c.status == 0 {
						return nil
					}
					f := long.failure(time.Now())
					f.ContextLength = true
					return f
				})
				if !slices.Equal(went, c.went) || (res.Failure == nil) != (c.status == 0) || res.Reason != "" || res.Memo != 0 {
					t.Errorf("%+v went %v, want %v", res, went, c.went)
				}
			})
		})
	}
}

// While the mark of a failed call stays its repeats make one attempt each.
func TestOneAttemptAfterTheMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := scripted(map[string][]answer{"a": {says(500)}, "b": {fine}})
		call := Call{Kind: Completion, Targets: []*Target{target("a", 1), target("b", 1)}, Once: true}
		for range 3 {
			res, went := do(t, new(Engine), call, u)
			if len(went) != 1 || res.Failure.Status != 500 || res.Memo != memoShort || res.ShouldRetry || res.Reason != AttemptsExhausted {
				t.Errorf("%+v went %v", res, went)
			}
		}
		call.Made = 3 // somebody joined a call that had been given up
		if res := new(Engine).Do(t.Context(), call, u.try); res.Attempts != 4 {
			t.Errorf("%+v", res)
		}
	})
}
