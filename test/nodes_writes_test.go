package test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// payments is where the tests of writes post to.
const payments = "/tools/payments/v1/payments"

// noWait is the line of a caller that does not wait for a call in flight.
const noWait = "Prefer: wait=0"

// paying configures the tool "payments", whose upstream knows no keys, and what
// changes that.
func paying(u *up.Server, changes ...harness.Map) harness.Config {
	tool := harness.Map{"name": "payments", "base_url": u.URL()}
	for _, c := range changes {
		maps.Copy(tool, c)
	}
	return harness.Config{"tools": []any{tool}}
}

// patient lets the upstream take long before its caller is told that nobody
// knows, and goes on however often it failed.
var patient = harness.Map{"policy": harness.Map{
	"timeouts": harness.Map{"first_byte": "30s"}, "breaker": harness.Map{"enabled": false},
}}

func payer(u *up.Server, url string) []any {
	return []any{paying(u, patient), harness.Config{"store.url": url}}
}

// paid answers that a payment was made: the body tells which one.
func paid(c *up.Call) up.Step { return up.Status(201, payment(c.N)) }

func paidAfter(gate <-chan struct{}) func(*up.Call) up.Step {
	return func(c *up.Call) up.Step { return up.Seq(up.Gate(gate), paid(c)) }
}

func payment(n int) string { return fmt.Sprintf(`{"id": "pay_%d"}`, n) }

// bill is the body that the key's payment is asked for with.
func bill(key string) string {
	text, err := json.Marshal(harness.Map{"ref": key, "amount": 5})
	if err != nil {
		panic(err) // no text is beyond JSON
	}
	return string(text)
}

// charge makes a payment with a key; charges does not wait for the answer.
func charge(g *harness.Gateway, key string, lines ...string) *harness.Answer {
	return g.Post(payments, bill(key), keyed(key, lines)...)
}

func charges(g *harness.Gateway, key string, lines ...string) *harness.Pending {
	return g.Go(payments, bill(key), keyed(key, lines)...)
}

// wantPaid says which payment an answer should tell of, and how it came by it.
func wantPaid(t *testing.T, a *harness.Answer, n int, outcome string) {
	t.Helper()
	if a.Status != 201 || a.Body != payment(n) || a.Outcome() != outcome {
		t.Errorf("got %d %q %q, want 201 %q %s", a.Status, a.Outcome(), a.Body, payment(n), outcome)
		return
	}
	shared := outcome != "executed"
	if got := a.Header.Get("Idempotent-Replayed"); (got == "true") != shared {
		t.Errorf("%s, with Idempotent-Replayed: %q", outcome, got)
	}
	if key, err := hex.DecodeString(a.Header.Get("Oncegate-Key")); err != nil || len(key) != 32 {
		t.Errorf("Oncegate-Key: %q", a.Header.Get("Oncegate-Key"))
	}
}

// want424 says that the caller should have been told that nobody knows.
func want424(t *testing.T, a *harness.Answer) {
	t.Helper()
	problem{status: 424, retry: "false", outcome: "unknown"}.head(t, a)
	if a.Status != 424 {
		return
	}
	if typ := a.Header.Get("Content-Type"); !strings.HasPrefix(typ, "application/problem+json") {
		t.Errorf("Content-Type %q", typ)
	}
	if key := a.Header.Get("Oncegate-Key"); a.Field("code").String() != "idempotency_outcome_unknown" || !strings.Contains(a.Body, key) || key == "" {
		t.Errorf("record %q: %s", key, a.Body)
	}
}

var inFlight = problem{status: 409, retry: "true", outcome: "refused", reason: "in_flight"}

// soon asks with a key until the answer has that status. Until then it may only
// be one of those, which say that this is still to come.
func soon(t *testing.T, within time.Duration, g *harness.Gateway, key string, status int, before ...int) (a *harness.Answer) {
	t.Helper()
	harness.Eventually(t, within, fmt.Sprint("the answer is a ", status), func() bool {
		a = charge(g, key, noWait)
		if a.Status == status {
			return true
		}
		if slices.Contains(before, a.Status) {
			return false
		}
		t.Fatalf("%d %s, where %d is to come after %v", a.Status, a.Body, status, before)
		return false
	})
	return a
}

// wantWrites says how many calls that may have an effect the upstream should
// have seen, and that no transport sent one twice.
func wantWrites(t *testing.T, u *up.Server, n int, all ...*harness.Gateway) {
	t.Helper()
	got := 0
	for _, c := range u.Calls() {
		if c.Method != "GET" {
			got++
		}
	}
	if got != n {
		t.Errorf("the upstream saw %d writes, want %d", got, n)
	}
	for _, g := range all {
		if m := g.Metrics(); m.Sum("oncegate_transport_replays_total") != 0 || !m.Has("oncegate_transport_replays_total") {
			t.Errorf("transport replays: %v", m.Sum("oncegate_transport_replays_total"))
		}
	}
}

// recordsIn lists the records in a state, so many a page.
func recordsIn(t *testing.T, g *harness.Gateway, state string, page int) (all []gjson.Result) {
	t.Helper()
	seen := map[string]bool{}
	for cursor := ""; ; {
		query := url.Values{"state": {state}, "limit": {fmt.Sprint(page)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		got := gjson.Parse(ask(t, g, "/api/records?"+query.Encode()))
		records := got.Get("records").Array()
		if !got.Get("records").IsArray() || len(records) > page {
			t.Fatalf("a page of %d: %s", page, got.Raw)
		}
		for _, r := range records {
			key := r.Get("key").String()
			if r.Get("state").String() != state || len(key) != 64 || seen[key] {
				t.Fatalf("among the %s: %s", state, r.Raw)
			}
			seen[key] = true
			all = append(all, r)
		}
		if cursor = got.Get("next").String(); cursor == "" {
			return all
		}
	}
}

// record gives one record with its events.
func record(t *testing.T, g *harness.Gateway, key string) gjson.Result {
	t.Helper()
	r := gjson.Parse(ask(t, g, "/api/records/"+key))
	if r.Get("key").String() != key || len(r.Get("events").Array()) == 0 {
		t.Errorf("the record %s: %s", key, r.Raw)
	}
	return r
}

// wantListed says that these keys' records, and no others, should be listed as
// unknown, page by page and by the command.
func wantListed(t *testing.T, g *harness.Gateway, keys ...string) {
	t.Helper()
	listed := recordsIn(t, g, "unknown", 2)
	got := map[string]bool{}
	for _, r := range listed {
		got[r.Get("key").String()] = true
		if r.Get("tool").String() != "payments" || r.Get("method").String() != "POST" || r.Get("path").String() != "/v1/payments" || r.Get("dispatched").String() == "" {
			t.Errorf("listed is %s", r.Raw)
		}
	}
	printed := recordsCommand(t, g, "ls", "--state", "unknown")
	for _, key := range keys {
		if !got[key] {
			t.Errorf("%s is not listed as unknown", key)
		}
		if !strings.Contains(printed, key) {
			t.Errorf("the command does not list %s:\n%s", key, printed)
		}
	}
	if len(got) != len(keys) {
		t.Errorf("%d are listed as unknown, want %d: %v", len(got), len(keys), listed)
	}
	if n := g.Metrics().Sum("oncegate_unknown_outcomes", `tool="payments"`); int(n) != len(keys) {
		t.Errorf("oncegate_unknown_outcomes is %v, want %d", n, len(keys))
	}
}

// resolve says over the admin listener how an unknown outcome ended.
func resolve(t *testing.T, g *harness.Gateway, key string, how harness.Map) {
	t.Helper()
	body, err := json.Marshal(how)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post("http://"+g.Admin+"/api/records/"+key+"/resolve", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
		t.Errorf("resolve: %d %s", res.StatusCode, text)
	}
}

// recordsCommand runs `oncegate records` against a gateway.
func recordsCommand(t *testing.T, g *harness.Gateway, args ...string) string {
	t.Helper()
	code, out, errs := harness.Run(t, nil, append(append([]string{"records"}, args...), "--admin", g.Admin)...)
	if code != 0 {
		t.Errorf("records %v: exit status %d, %s%s", args, code, out, errs)
	}
	return out
}

// fifty at once over two nodes are one call: those that come while it runs
// follow it, and those that come at its end find what it left.
func TestNodesWritesFiftyAtOnce(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	r := redistest.Start(t)
	a, b := pair(t, u, r.URL(), paying(u, patient))
	fiftyAtOnce(t, u, a, b, rounds(t, 200))
}

func fiftyAtOnce(t *testing.T, u *up.Server, a, b *harness.Gateway, rounds int) {
	t.Helper()
	const callers = 50
	both := []*harness.Gateway{a, b}
	for n := range rounds {
		key, before, gate := fmt.Sprint("at-once-", n), u.N(), make(chan struct{})
		gated, unwaiting := n%8 == 0, n%8 == 4
		u.Choose(paidAfter(gate))
		var lines []string
		if unwaiting {
			lines = []string{noWait}
		} else if !gated {
			close(gate)
		}
		answers := make(chan *harness.Answer, callers)
		for i := range callers {
			go func() { answers <- charge(both[(i+n)%2], key, lines...) }()
		}
		if gated {
			harness.Eventually(t, 20*time.Second, "all but one follow", func() bool { return followers(a, b) == callers-1 })
			close(gate)
		}
		how := map[string]int{}
		for range callers {
			if unwaiting && how["in flight"] == callers-1 {
				close(gate) // the others have their answers
			}
			select {
			case ans := <-answers:
				if ans.Status == 409 && unwaiting {
					how["in flight"]++
					inFlight.head(t, ans)
					continue
				}
				how[ans.Outcome()]++
				if ans.Status != 201 || ans.Body != payment(before+1) {
					t.Fatalf("round %d: %d %q", n, ans.Status, ans.Body)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("round %d: after 30 s there are %v", n, how)
			}
		}
		shared := how["coalesced"]
		if !gated {
			shared += how["replayed"]
		}
		if unwaiting {
			shared = how["in flight"]
		}
		if u.N() != before+1 || how["executed"] != 1 || shared != callers-1 {
			t.Fatalf("round %d: %d calls, %v", n, u.N()-before, how)
		}
	}
	wantWrites(t, u, rounds, a, b)
}

// A call that takes longer than its lease keeps it, also when the store stands
// still for a while shorter than that.
func TestNodesWritesB064TheLeaseOutlivesTheWork(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	r := redistest.Start(t)
	a, b := pair(t, u, r.URL(), paying(u, patient))
	leaseOutlivesWrite(t, u, a, b, func() {
		r.Pause()
		<-time.After(700 * time.Millisecond)
		r.Continue()
	})
}

func leaseOutlivesWrite(t *testing.T, u *up.Server, a, b *harness.Gateway, during func()) {
	t.Helper()
	u.Choose(func(c *up.Call) up.Step { return up.Seq(up.Pause(7*time.Second), paid(c)) })
	before := u.N()
	first := charges(a, "slow")
	begun := u.Call(before + 1).At
	at := func(d time.Duration) { <-time.After(time.Until(begun.Add(d))) }
	at(1200 * time.Millisecond)
	if during != nil {
		during()
	}
	at(3 * time.Second)
	second := charges(b, "slow")
	at(6 * time.Second)
	inFlight.head(t, charge(b, "slow", noWait))
	third := charges(b, "slow")
	wantPaid(t, first.Answer(), before+1, "executed")
	for _, p := range []*harness.Pending{second, third} {
		wantPaid(t, p.Answer(), before+1, "coalesced")
	}
	wantWrites(t, u, before+1, a, b)
	wantListed(t, b)
}

// On a cluster a write's record and all that belongs to it have one tag,
// whatever a client writes into its key, and what is listed comes from all
// masters.
func TestNodesWritesB078Cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, nil).URL()
	start := func(t *testing.T) (u *up.Server, a, b *harness.Gateway) {
		t.Helper()
		u = up.New(t)
		a, b = pair(t, u, cluster, paying(u, patient))
		return u, a, b
	}
	u, a, b := start(t)
	t.Run("fifty at once", func(t *testing.T) { fiftyAtOnce(t, u, a, b, rounds(t, 20)) })
	t.Run("keys with braces", func(t *testing.T) {
		u.Choose(paid)
		for _, key := range []string{"k", "{x}", "{}", "a{b}c{}", "}{", "{s0}", "{s1}:{s2}"} {
			before := u.N()
			wantPaid(t, charge(a, key), before+1, "executed")
			wantPaid(t, charge(b, key), before+1, "replayed")
			problem{status: 422, outcome: "refused", reason: "key_reused"}.head(t, b.Post(payments, bill("other"), keyed(key, nil)...))
			wantCalls(t, u, before+1)
		}
	})
	t.Run("unknowns are listed", func(t *testing.T) {
		const lost = 12
		var keys []string
		u.Choose(func(*up.Call) up.Step { return up.RST })
		before := u.N()
		for i := range lost { // some for each master
			ans := charge(a, fmt.Sprint("lost-", i))
			want424(t, ans)
			want424(t, charge(b, fmt.Sprint("lost-", i)))
			keys = append(keys, ans.Header.Get("Oncegate-Key"))
		}
		wantCalls(t, u, before+lost)
		for _, g := range []*harness.Gateway{a, b} {
			wantListed(t, g, keys...)
		}
		for i, key := range keys {
			if i%2 == 0 {
				resolve(t, b, key, harness.Map{"as": "executed", "reason": "in the statement", "status": 201, "body": payment(0)})
			} else {
				resolve(t, b, key, harness.Map{"as": "not-executed", "reason": "not in the statement"})
			}
		}
		wantListed(t, a)
		u.Choose(paid)
		for i := range keys {
			ans := charge(a, fmt.Sprint("lost-", i))
			if i%2 == 1 {
				wantPaid(t, ans, u.N(), "executed")
			} else {
				wantPaid(t, ans, 0, "replayed")
			}
		}
		wantCalls(t, u, before+lost+lost/2)
	})
	t.Run("the lease outlives the work", func(t *testing.T) { t.Parallel(); u, a, b := start(t); leaseOutlivesWrite(t, u, a, b, nil) })
	t.Run("the leader is stopped", func(t *testing.T) { t.Parallel(); u, a, b := start(t); leaderOfWriteIsStopped(t, u, a, b, true) })
}

// What an operator settles holds on every node, and stays in the record's
// events.
func TestNodesWritesAreResolved(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	r := redistest.Start(t)
	a, b := pair(t, u, r.URL(), paying(u))
	u.Choose(func(*up.Call) up.Step { return up.RST })
	var keys []string
	for _, key := range []string{"one", "two", "three"} {
		ans := charge(a, key)
		want424(t, ans)
		keys = append(keys, ans.Header.Get("Oncegate-Key"))
	}
	wantListed(t, b, keys...)
	u.Choose(paid)
	kept := filepath.Join(t.TempDir(), "answer")
	if err := os.WriteFile(kept, []byte(`{"id":"from the statement"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	recordsCommand(t, a, "resolve", keys[0], "--as", "executed", "--reason", "found in the statement", "--status", "201", "--body", kept)
	recordsCommand(t, b, "resolve", keys[1], "--as", "not-executed", "--reason", "not in the statement")
	for _, g := range []*harness.Gateway{a, b} {
		wantListed(t, g, keys[2])
		if ans := charge(g, "one"); ans.Status != 201 || ans.Body != `{"id":"from the statement"}` || ans.Outcome() != "replayed" {
			t.Errorf("the one that was executed: %d %s %s", ans.Status, ans.Outcome(), ans.Body)
		}
		want424(t, charge(g, "three"))
	}
	wantPaid(t, charge(a, "two"), 4, "executed")
	wantPaid(t, charge(b, "two"), 4, "replayed")
	wantWrites(t, u, 4, a, b)
	// Of one that ran anew the record tells the new run; the audit forgets nothing.
	audit := ask(t, b, "/api/audit")
	for i, reason := range []string{"found in the statement", "not in the statement"} {
		entry := gjson.Get(audit, `audit.#(key=="`+keys[i]+`")`)
		if entry.Get("reason").String() != reason || entry.Get("actor").String() == "" {
			t.Errorf("the audit of %s: %s", keys[i], audit)
		}
	}
	if events := record(t, a, keys[0]).Get("events").Raw; !strings.Contains(events, "found in the statement") {
		t.Errorf("its events are %s", events)
	}
	if out := recordsCommand(t, b, "show", keys[0]); !strings.Contains(out, "found in the statement") {
		t.Errorf("shown is %s", out)
	}
}
