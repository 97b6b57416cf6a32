package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what the scripted upstream says to one attempt.
type answer struct {
	status  int // 0: none came, see phase
	phase   Phase
	header  map[string][]string
	body    string
	takes   time.Duration
	timeout bool
	bad     bool
	commits bool
}

var fine = answer{status: 200}

func says(status int, header ...string) answer {
	a := answer{status: status, header: map[string][]string{}}
	for i := 0; i < len(header); i += 2 {
		a.header[header[i]] = append(a.header[header[i]], header[i+1])
	}
	return a
}

func (a answer) with(body string) answer { a.body = body; return a }

var (
	refusedDial = answer{phase: NotSent}
	reset1      = answer{phase: Sent}
	hang        = answer{phase: Sent, timeout: true, takes: 2 * time.Second}
)

// failure reads an answer as a provider does.
func (a answer) failure(now time.Time) *Failure {
	if a.status == 200 && !a.bad && !a.commits {
		return nil
	}
	f := &Failure{Phase: a.phase, Status: a.status, Timeout: a.timeout, BadAnswer: a.bad, Committed: a.commits,
		Err: errors.New(a.body)}
	if a.status == 0 {
		return f
	}
	f.Phase = Answered
	if a.commits {
		f.Phase = Broken
	}
	f.Throttle = a.status == 429 || a.status == 529
	f.Quota = SpentQuota(a.status, []byte(a.body))
	f.Credential = a.status == 401 || a.status == 403
	f.RetryAfter, f.HasRetryAfter = RetryAfter(a.header, []byte(a.body), f.Throttle, now)
	switch v := a.header["X-Should-Retry"]; {
	case len(v) == 0:
	case v[0] == "true":
		f.ShouldRetry = 1
	case v[0] == "false":
		f.ShouldRetry = -1
	}
	return f
}

// attempt is what the script saw of one attempt.
type attempt struct {
	at time.Time
	Attempt
	failure *Failure
}

// upstream answers attempts by a script for each target, "name" or
// "name/credential"; the last answer of a script is repeated.
type upstream struct {
	scripts  map[string][]answer
	asked    map[string]int
	attempts []attempt
}

func scripted(scripts map[string][]answer) *upstream {
	return &upstream{scripts: scripts, asked: map[string]int{}}
}

func (u *upstream) try(ctx context.Context, a Attempt) *Failure {
	name := a.Target.Name
	if key := fmt.Sprintf("%s/%d", name, a.Credential); u.scripts[key] != nil {
		name = key
	}
	script := u.scripts[name]
	reply := script[min(u.asked[name], len(script)-1)]
	u.asked[name]++
	at := time.Now()
	if reply.takes > 0 {
		select {
		case <-time.After(reply.takes):
		case <-ctx.Done():
			f := &Failure{Phase: Sent, Cancelled: true, Err: context.Cause(ctx)}
			u.attempts = append(u.attempts, attempt{at, a, f})
			return f
		}
	}
	f := reply.failure(time.Now())
	u.attempts = append(u.attempts, attempt{at, a, f})
	return f
}

// waits gives the pauses between the attempts; meaningful for answers that
// take no time.
func (u *upstream) waits() (d []time.Duration) {
	for i := 1; i < len(u.attempts); i++ {
		d = append(d, u.attempts[i].at.Sub(u.attempts[i-1].at))
	}
	return d
}

// waiting is a client that waits until its deadline, unless it goes before.
type waiting struct {
	until atomic.Pointer[time.Time]
	gone  chan struct{}
}

func patient(d time.Duration) *waiting {
	w := &waiting{gone: make(chan struct{})}
	w.patience(d)
	return w
}

func (w *waiting) patience(d time.Duration) {
	until := time.Now().Add(d)
	w.until.Store(&until)
}

func (w *waiting) Left() time.Duration {
	select {
	case <-w.gone:
		return 0
	default:
		return time.Until(*w.until.Load())
	}
}

func (w *waiting) Gone() <-chan struct{} { return w.gone }

func target(name string, credentials int) *Target {
	t := &Target{Name: name}
	for range credentials {
		t.Credentials = append(t.Credentials, new(Credential))
	}
	return t
}

// dice are the ends and the middle of what a random source gives.
var dice = map[string]func() float64{
	"low":    func() float64 { return 0 },
	"middle": func() float64 { return 0.5 },
	"high":   func() float64 { return math.Nextafter(1, 0) },
}

func eachDice(t *testing.T, test func(t *testing.T, e *Engine)) {
	for name, rnd := range dice {
		t.Run(name, func(t *testing.T) { test(t, &Engine{Rand: rnd}) })
	}
}
