package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// client behaves as the SDKs do: it tries again when the connection broke, its
// time is over or the answer is a 5xx, and says so in x-stainless-retry-count.
type client struct {
	address string // host:port
	tries   int
	timeout time.Duration // of each try
	same    bool          // all calls ask for the same thing
}

// many makes calls, so many at once, and says how many failed.
func many(ctx context.Context, calls, atOnce int, c client) (failed int64, err error) {
	var lost atomic.Int64
	var all errgroup.Group
	all.SetLimit(atOnce)
	run := rand.Uint64()
	for n := range calls {
		if c.same {
			n = 0
		}
		body := fmt.Appendf(nil, `{"model":"mock","messages":[{"role":"user","content":"run %x, question %d"}]}`, run, n)
		all.Go(func() error {
			if !c.ask(ctx, body) {
				lost.Add(1)
			}
			return ctx.Err()
		})
	}
	err = all.Wait()
	return lost.Load(), err
}

// ask makes one call, and says whether it was answered.
func (c *client) ask(ctx context.Context, body []byte) bool {
	// A connection of its own for each try: what befalls one is no other's.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	for try := range c.tries {
		if ok, again := c.try(ctx, transport, body, try); ok || !again {
			return ok
		}
	}
	return false
}

func (c *client) try(ctx context.Context, transport *http.Transport, body []byte, try int) (ok, again bool) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return false, false
	}
	r.GetBody = nil // the transport must not try again by itself
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(try))
	a, err := transport.RoundTrip(r)
	if err != nil {
		return false, true
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		return false, true
	}
	return a.StatusCode == http.StatusOK, a.StatusCode >= 500 && a.Header.Get("X-Should-Retry") != "false"
}

// Latency is what the gateway adds to a call.
type Latency struct {
	Calls       int // on each side
	Median, P99 time.Duration
}

// compare makes calls in turn straight and through the gateway. What is added
// is the difference of the medians, and of the 99th percentiles.
func compare(ctx context.Context, straight, through string, calls int) (Latency, error) {
	var took [2][]time.Duration
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	run := rand.Uint64()
	for n := range calls + 20 {
		for side, address := range []string{straight, through} {
			c := client{address: address, tries: 1, timeout: patient}
			body := fmt.Appendf(nil, `{"model":"mock","messages":[{"role":"user","content":"run %x, question %d"}]}`, run, n)
			begin := time.Now()
			if ok, _ := c.try(ctx, transport, body, 0); !ok {
				return Latency{}, fmt.Errorf("%s did not answer", address)
			}
			if n >= 20 { // connections are open and code is warm
				took[side] = append(took[side], time.Since(begin))
			}
		}
	}
	for _, t := range took {
		slices.Sort(t)
	}
	at := func(part float64) time.Duration {
		i := min(int(part*float64(calls)), calls-1)
		return max(took[1][i]-took[0][i], 0)
	}
	return Latency{Calls: calls, Median: at(.5), P99: at(.99)}, nil
}
