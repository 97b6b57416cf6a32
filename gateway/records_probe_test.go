package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// unlisted keeps the gateway from finding the unknown outcomes by itself, so that
// they are asked about when the test says so.
type unlisted struct{ cache.Store }

func (unlisted) Records(context.Context, cache.Filter, string, int) ([]cache.Record, string, error) {
	return nil, "", nil
}

// A person has the API asked now: what it says counts, and absence only where
// the tool says that it does.
func TestProbeOnDemand(t *testing.T) {
	var answer atomic.Value
	answer.Store("")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answer.Load().(string)
		if text == "" {
			w.WriteHeader(500)
		}
		io.WriteString(w, text)
	}))
	defer api.Close()
	for name, c := range map[string]struct {
		answer      string
		absentAfter time.Duration
		total       time.Duration // of an attempt, which the record's may be in
		status      int
		state       string
		found       bool
	}{
		"it happened":              {`{"data":[{"id":1}]}`, 0, time.Minute, 200, "completed", true},
		"absence proves nothing":   {`{"data":[]}`, 0, time.Nanosecond, 200, "unknown", false},
		"absence proves something": {`{"data":[]}`, time.Nanosecond, time.Nanosecond, 200, "released", false},
		"it may be on its way":     {`{"data":[]}`, time.Nanosecond, time.Minute, 200, "unknown", false},
		"it can't say":             {"", time.Nanosecond, time.Nanosecond, 502, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t, func(o *gateway.Options) {
				addTool(t, o, "payments", api.URL)
				o.Tools[0].Probe.AbsentAfter, o.Tools[0].Policy.Timeouts.Total = c.absentAfter, c.total
				o.Store = unlisted{o.Store}
			})
			key := b.run("doubt", "payments", cache.Unknown)
			answer.Store(c.answer)
			status, out := b.ask("POST", "/api/records/"+key+"/probe", `{"reason":"the payee called"}`)
			if state, _ := out["state"].(string); status != c.status || state != c.state || status == 200 && out["found"] != c.found {
				t.Fatalf("%d %v", status, out)
			}
			after, want := b.get("/api/summary")["doubts"], 0.
			if c.state == "unknown" || c.status == 502 {
				want = 1
			}
			if after != want {
				t.Errorf("%v doubts afterwards, want %v", after, want)
			}
			if want == 0 {
				if a := b.get("/api/audit")["audit"].([]any); len(a) != 1 || at(a[0].(map[string]any), "actor") != "probe" ||
					!strings.HasSuffix(at(a[0].(map[string]any), "reason").(string), "; asked for: the payee called") {
					t.Errorf("the audit has %v", a)
				}
			}
		})
	}
	b := newBooks(t, func(o *gateway.Options) {
		addTool(t, o, "payments", api.URL)
		o.Store = unlisted{o.Store}
	})
	done, other := b.run("done", "payments", cache.Completed), b.run("other", "mail", cache.Unknown)
	for _, c := range []struct {
		path, body string
		status     int
		code       string
	}{
		{done, "{}", 409, "outcome_not_unknown"}, {other, "{}", 409, "no_probe"}, {other[:63] + "x", "{}", 400, "invalid_request_error"},
		{"00" + other[2:], "", 404, "not_found"}, {other, `{"as":"executed"}`, 400, "invalid_request_error"},
	} {
		status, out := b.ask("POST", "/api/records/"+c.path+"/probe", c.body)
		if code, _, _ := fault(out); status != c.status || code != c.code {
			t.Errorf("%s %s: %d %v", c.path, c.body, status, out)
		}
	}
}
