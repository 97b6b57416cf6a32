package gateway_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/gateway"
	"oncegate/providers"
)

// remote is a store that can be away, and that a crash may take things from.
type remote struct {
	cache.Store
	away *atomic.Bool
}

func (r remote) Reachable() error {
	if r.away.Load() {
		return errors.New("dial tcp 10.0.0.7:6379: connection refused")
	}
	return nil
}

func (remote) Durability() string { return `relaxed: appendonly is "no", not "yes"` }

// withRemote puts one under the gateway.
func withRemote(away *atomic.Bool, refuse bool) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.RefuseUnprotected = refuse
		o.Store = remote{&cachetest.Faulty{Store: o.Store, Before: func(string) bool { return away.Load() }}, away}
	}
}

func (h *house) get(admin bool, path string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
	if admin {
		h.g.Admin().ServeHTTP(w, r)
	} else {
		h.g.Data().ServeHTTP(w, r)
	}
	return w.Code, w.Body.String()
}

func TestReadinessWithoutTheStore(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		var away atomic.Bool
		h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, withRemote(&away, refuse))
		for _, is := range []bool{false, true, false} {
			away.Store(is)
			want := http.StatusOK
			if is && refuse {
				want = http.StatusServiceUnavailable
			}
			if code, _ := h.get(false, "/readyz"); code != want {
				t.Errorf("away %v, refusing %v: ready with %d", is, refuse, code)
			}
			code, text := h.get(false, "/readyz?verbose")
			if code != want || !strings.Contains(text, "\ndurability: relaxed\n") || is != strings.Contains(text, "store is away:") || strings.Contains(text, "10.0.0.7") {
				t.Errorf("away %v, refusing %v: %d %q", is, refuse, code, text)
			}
			if code, _ := h.get(false, "/livez"); code != http.StatusOK {
				t.Errorf("away %v: alive with %d", is, code)
			}
		}
	}
}

func TestCompletionsAreRefusedWithoutTheStore(t *testing.T) {
	var away atomic.Bool
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, withRemote(&away, true))
	away.Store(true)
	for _, lines := range [][]string{nil, {"Idempotency-Key", "k"}} {
		a := h.post("/v1/chat/completions", hi, lines...)
		if a.status != 503 || !strings.Contains(a.body, `"store_unavailable"`) || a.header.Get("Oncegate-Outcome") != "refused" ||
			a.header.Get("Oncegate-Reason") != "store_away" || a.header.Get("X-Should-Retry") != "true" || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	}
	// What shares nothing needs no store.
	if a := h.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off"); a.status != 200 || a.header.Get("Oncegate-Outcome") != "executed" {
		t.Errorf("%d %v", a.status, a.header)
	}
	away.Store(false)
	if a := h.post("/v1/chat/completions", hi); a.status != 200 || a.header.Get("Oncegate-Outcome") != "executed" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if n := h.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// noting is a store that is told what to book should this node die.
type noting struct {
	cache.Store
	mu    sync.Mutex
	noted []string // providers, of each note
}

func (n *noting) Note(_ cache.Hold, lapses []cache.Line) error {
	var who []string
	for _, l := range lapses {
		who = append(who, l.Provider)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = append(n.noted, strings.Join(who, " "))
	return nil
}

// A claim tells of an attempt at the first target: what goes elsewhere is noted,
// be it the first.
func TestAttemptsThatTheClaimDidNotTellOfAreNoted(t *testing.T) {
	throttled := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "50")
		w.WriteHeader(429)
	}))
	defer throttled.Close()
	var store *noting
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, func(o *gateway.Options) {
		relay, err := providers.New(providers.Options{Name: "throttled", BaseURL: throttled.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(relay.Close)
		store = &noting{Store: o.Store}
		o.Store, o.Journal = store, nil
		o.Upstreams = append(o.Upstreams, gateway.Upstream{Provider: relay})
		o.Models = []gateway.Model{{Name: "*", Targets: []gateway.ModelTarget{{Upstream: "throttled", Weight: 1}, {Upstream: "up"}}}}
	})
	for _, id := range []string{"1", "2"} {
		if a := h.post("/v1/chat/completions", hi, "Idempotency-Key", id); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if want := []string{"throttled up", "up"}; !slices.Equal(store.noted, want) {
		t.Errorf("noted %q, want %q", store.noted, want)
	}
}

func TestMetricsOfTheStore(t *testing.T) {
	var away atomic.Bool
	upstream := func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }
	h := newHouse(t, upstream, withRemote(&away, false))
	h.post("/v1/chat/completions", hi)
	for _, line := range []string{
		"oncegate_store_relaxed 1\n",
		`oncegate_store_seconds_count{op="claim"} 1` + "\n", `oncegate_store_seconds_count{op="settle"} 1` + "\n",
		`oncegate_store_seconds_count{op="renew"} 0` + "\n", `oncegate_store_seconds_count{op="append"} 0` + "\n", `oncegate_store_seconds_count{op="owe"} 0` + "\n",
	} {
		h.await("\n" + line)
	}
	newHouse(t, upstream, nil).await("\noncegate_store_relaxed 0\n") // the embedded one
}

// Who sends writes through a store that may forget them is told so at the start.
func TestARelaxedStoreOfWritesIsToldAtTheStart(t *testing.T) {
	for _, tools := range []bool{false, true} {
		core, logs := observer.New(zapcore.WarnLevel)
		newHouse(t, nil, func(o *gateway.Options) {
			withRemote(new(atomic.Bool), false)(o)
			o.Log = zap.New(core)
			if tools {
				addTool(t, o, "payments", "http://127.0.0.1:9")
			}
		})
		told := logs.FilterMessageSnippet("after a crash of the store").All()
		if (len(told) == 1) != tools || tools && told[0].ContextMap()["durability"] != `relaxed: appendonly is "no", not "yes"` {
			t.Errorf("with tools %v: logged is %v", tools, told)
		}
	}
}
