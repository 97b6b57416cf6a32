package test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// admin asks the admin listener.
func admin(t *testing.T, g *harness.Gateway, method, path string, lines ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.Admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	for _, path := range []string{"/livez", "/healthz", "/readyz", "/readyz?verbose", "/livez/"} {
		for _, method := range []string{"GET", "HEAD"} {
			if a := g.Do(method, path, ""); a.Status != 200 || method == "HEAD" && a.Body != "" {
				t.Errorf("%s %s: %d %q", method, path, a.Status, a.Body)
			}
		}
	}
	if a := g.Get("/readyz?verbose"); len(a.Body) < 10 || !strings.Contains(a.Body, "store") {
		t.Errorf("it does not say why: %q", a.Body)
	}
	if a := g.Do("HEAD", "/", ""); a.Status != 200 || a.Body != "" {
		t.Errorf("HEAD /: %d", a.Status)
	}
	wantUnseen(t, u, 0) // probes never call an upstream
	if n := g.Metrics().Sum("oncegate_requests_total"); n != 0 {
		t.Errorf("%v requests counted", n)
	}
}

// The admin listener without a token answers to this machine's own names, not
// to a page that had a name of its own led here.
func TestAdminListenerChecksTheHost(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.Refused(t))
	if code, body := admin(t, g, "GET", "/metrics"); code != 200 || !strings.Contains(body, "oncegate_") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := admin(t, g, "GET", "/metrics", "Host: localhost:9"); code != 200 {
		t.Errorf("by the name localhost: %d", code)
	}
	if code, body := admin(t, g, "GET", "/metrics", "Host: evil.example"); code != 403 || strings.Contains(body, "oncegate_requests") {
		t.Errorf("by a foreign name: %d %s", code, body)
	}
	if code, _ := admin(t, g, "GET", "/v1/models"); code != 404 {
		t.Errorf("the data listener's paths on the admin listener: %d", code)
	}
	if a := g.Get("/metrics"); a.Status != 404 {
		t.Errorf("metrics on the data listener: %d", a.Status)
	}
}

func TestAdminListenerWantsItsToken(t *testing.T) {
	t.Parallel()
	const token = "admin-token-4Kd8Wm2Xq"
	g := harness.Start(t, up.Refused(t), harness.Config{"auth.admin_token": token})
	for _, lines := range [][]string{nil, {"Authorization: Bearer nonsense"}, {"Authorization: Bearer " + token + "x"}} {
		if code, body := admin(t, g, "GET", "/metrics", lines...); code != 401 || strings.Contains(body, token) {
			t.Errorf("%v: %d %s", lines, code, body)
		}
	}
	if code, _ := admin(t, g, "GET", "/metrics?token="+token); code != 401 {
		t.Errorf("in the query: %d", code)
	}
	if code, _ := admin(t, g, "GET", "/metrics", "Authorization: Bearer "+token); code != 200 {
		t.Errorf("with the token: %d", code)
	}
	if code, _ := admin(t, g, "GET", "/livez"); code != 200 {
		t.Errorf("livez: %d", code)
	}
}

// The dashboard's files are there for those who have yet to show the token,
// and nothing else is, however its path is written.
func TestAdminListenerGivesItsPageWithoutTheToken(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.Refused(t), harness.Config{"auth.admin_token": "admin-token-4Kd8Wm2Xq"})
	for _, path := range []string{"/", "/requests", "/records/" + strings.Repeat("ab", 32), "/ledger?by=model"} {
		if code, body := admin(t, g, "GET", path); code != 200 || !strings.Contains(body, "<title>oncegate</title>") {
			t.Errorf("GET %s: %d %.200s", path, code, body)
		}
	}
	for _, path := range []string{"/api/report", "/api/targets", "/%61pi/report", "/requests/..%2f..%2fapi/report", "/requests/../api/report", "//api/report", "/api", "/metrics", "/records/../metrics", "/no-page"} {
		if code, body := admin(t, g, "GET", path); code != 401 {
			t.Errorf("GET %s: %d %.200s", path, code, body)
		}
	}
	if code, _ := admin(t, g, "POST", "/requests"); code != 405 {
		t.Errorf("a POST to the page: %d", code)
	}
}

func TestAdminListenersPageChecksTheHost(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.Refused(t))
	if code, _ := admin(t, g, "GET", "/"); code != 200 {
		t.Errorf("GET /: %d", code)
	}
	if code, _ := admin(t, g, "GET", "/", "Host: evil.example"); code != 403 {
		t.Errorf("by a foreign name: %d", code)
	}
}

// No stream that has begun is bounded by the client's deadline.
func TestClientDeadlineEndsAtTheStatusLine(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Pause(1500*time.Millisecond), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream), "Oncegate-Timeout: 1100ms"), up.Chunk("a"), up.Chunk("b"), up.Finish(), up.Done)
}

// The healthcheck of a container asks the admin listener.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.Refused(t))
	if code, out, errs := harness.Run(t, nil, "healthcheck", "--admin", "http://"+g.Admin); code != 0 {
		t.Errorf("exit status %d: %s%s", code, out, errs)
	}
	g.Kill9()
	code, out, errs := harness.Run(t, nil, "healthcheck", "--admin", "http://"+g.Admin)
	if code != 1 || !strings.Contains(out+errs, g.Admin) {
		t.Errorf("exit status %d, and the address that was tried is not named: %s%s", code, out, errs)
	}
}
