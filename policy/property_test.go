package policy

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestDelayIsBelowItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Base:         time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			ThrottleBase: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "throttle base")),
			Cap:          time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "cap")),
		}
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		throttled := rapid.Bool().Draw(t, "throttled")
		rnd := rapid.Float64Range(0, 1).Filter(func(f float64) bool { return f < 1 }).Draw(t, "rnd")

		ceiling := b.Ceiling(n, throttled)
		base := b.Base
		if throttled {
			base = b.ThrottleBase
		}
		want := b.Cap
		if n <= 62 && base <= b.Cap>>(n-1) {
			want = min(base<<(n-1), b.Cap)
		}
		if ceiling != want {
			t.Fatalf("ceiling %d, want %d", ceiling, want)
		}
		if d := b.Delay(n, throttled, rnd); d < 0 || d >= ceiling {
			t.Fatalf("delay %d, ceiling %d", d, ceiling)
		}
	})
}

// Uniform, not merely within bounds: each tenth of the range gets its share.
func TestDelayIsUniform(t *testing.T) {
	var counts [10]int
	b := Defaults().Backoff
	const n = 100_000
	for i := range n {
		counts[b.Delay(1, false, float64(i)/n)*10/b.Base]++
	}
	for i, c := range counts {
		if c < n/10-1 || c > n/10+1 {
			t.Errorf("tenth %d got %d of %d", i, c, n)
		}
	}
}

// For any script: no more than 3 attempts a target and 5 in all, none early,
// no retry with under a second left, nothing after the deadline, no target
// that content came from or that refused the call asked again.
func TestAnyScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Wrapped, for rapid would ask a *testing.T for its deadline, which a
		// bubble has none of.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			gen := rapid.Custom(func(t *rapid.T) answer {
				a := answer{takes: time.Duration(rapid.SampledFrom([]int{0, 0, 20, 1500, 30_000}).Draw(t, "takes")) * time.Millisecond}
				switch rapid.IntRange(0, 9).Draw(t, "kind") {
				case 0:
					a.phase = NotSent
				case 1:
					a.phase, a.timeout = Sent, rapid.Bool().Draw(t, "timeout")
				case 2:
					a.status, a.bad = rapid.SampledFrom([]int{429, 500, 502, 400}).Draw(t, "status inside"), true
				case 3:
					a.status, a.commits = 200, true
				default:
					a = says(rapid.SampledFrom([]int{200, 400, 401, 402, 408, 409, 429, 429, 500, 501, 503, 503, 504, 529}).Draw(t, "status"))
					if s := rapid.SampledFrom([]string{"", "", "0", "0.3", "2", "5", "9", "40", "70", "86400"}).Draw(t, "retry after"); s != "" {
						a.header["Retry-After"] = []string{s}
					}
					if s := rapid.SampledFrom([]string{"", "", "", "true", "false"}).Draw(t, "x-should-retry"); s != "" {
						a.header["X-Should-Retry"] = []string{s}
					}
				}
				return a
			})
			var call Call
			call.Kind = rapid.SampledFrom([]Kind{Read, Completion}).Draw(t, "class")
			scripts := map[string][]answer{}
			for i := range rapid.IntRange(1, 4).Draw(t, "targets") {
				name := strconv.Itoa(i)
				call.Targets = append(call.Targets, target(name, rapid.IntRange(1, 3).Draw(t, "credentials")))
				scripts[name] = rapid.SliceOfN(gen, 1, 4).Draw(t, "script")
			}
			limit := time.Duration(rapid.IntRange(1, 120).Draw(t, "deadline")) * time.Second
			e := &Engine{Rand: func() float64 { return rapid.Float64Range(0, 0.999999).Draw(t, "rnd") }}
			u := scripted(scripts)

			// The second call meets the holds of the first.
			for range 2 {
				made := len(u.attempts)
				start := time.Now()
				call.Deadline = start.Add(limit)
				ctx, cancel := context.WithDeadline(context.Background(), call.Deadline)
				res := e.Do(ctx, call, u.try)
				cancel()
				if end := time.Since(start); end > limit {
					t.Fatalf("ended %v after its deadline", end-limit)
				}
				if res.Attempts != len(u.attempts)-made || res.Attempts > 5 {
					t.Fatalf("%d attempts told, %d made", res.Attempts, len(u.attempts)-made)
				}
				perTarget, lost := map[string]int{}, map[string]int{}
				for i, a := range u.attempts[made:] {
					perTarget[a.Target.Name]++
					if i > 0 && call.Deadline.Sub(a.at) < time.Second {
						t.Fatalf("a retry began with %v left", call.Deadline.Sub(a.at))
					}
					if a.failure != nil && a.failure.Phase == Sent {
						lost[a.Target.Name]++
					}
					if a.failure == nil && i != res.Attempts-1 {
						t.Fatal("an attempt followed a success")
					}
					if a.failure != nil && (a.failure.Committed || a.failure.Result() == "400" && a.failure.ShouldRetry <= 0) && i != res.Attempts-1 {
						t.Fatal("an attempt followed a final failure")
					}
				}
				for name, n := range perTarget {
					if n > 3 {
						t.Fatalf("%d attempts on target %s", n, name)
					}
					if call.Kind == Completion && lost[name] > 2 {
						t.Fatalf("%d answers of target %s were lost", lost[name], name)
					}
				}
				if res.RetryAfter < 0 || res.RetryAfter > comeBackMost || res.Memo < 0 || res.Memo > memoLong {
					t.Fatalf("%+v", res)
				}
				if succeeded := res.Failure == nil && res.Reason == ""; succeeded != (res.Attempts > 0 && u.attempts[len(u.attempts)-1].failure == nil) {
					t.Fatalf("%+v", res)
				}
				if res.ShouldRetry && res.Attempts > 0 {
					t.Fatal("attempts were made and the client is to try again")
				}
			}
			// Over both calls: nobody goes where the upstream asked to wait.
			type pair struct {
				target     *Target
				credential int
			}
			until := map[pair]time.Time{}
			for _, a := range u.attempts {
				p := pair{a.Target, a.Credential}
				if early := until[p].Sub(a.at); early > 0 {
					t.Fatalf("target %s was asked %v early", a.Target.Name, early)
				}
				if f := a.failure; f != nil && f.Phase == Answered && (f.Throttle || f.Status >= 500 && f.Status != 501) {
					until[p] = a.at.Add(min(f.told(), holdMost)) // such answers take no time here
				}
			}
		})
	})
}
