package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:8081": "127.0.0.1:8081", ":8081": "127.0.0.1:8081", "[::]:8081": "127.0.0.1:8081",
		"10.0.0.5:1": "10.0.0.5:1", "[::1]:1": "[::1]:1", "localhost:1": "localhost:1", "nonsense": "nonsense",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s is dialled as %s, want %s", listen, got, want)
		}
	}
}

// A gateway that answers, but not well, is not healthy; its token is the
// configuration's.
func TestHealthcheckStatus(t *testing.T) {
	var token string
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		w.WriteHeader(status)
	}))
	defer srv.Close()
	t.Chdir(t.TempDir())
	t.Setenv("ONCEGATE_SERVER_ADMIN_LISTEN", srv.Listener.Addr().String())
	t.Setenv("ONCEGATE_AUTH_ADMIN_TOKEN", "t0ken")
	if err := run(t.Context(), []string{"healthcheck"}, io.Discard, io.Discard); err != nil || token != "Bearer t0ken" {
		t.Errorf("%v, token %q", err, token)
	}
	status = http.StatusServiceUnavailable
	err := run(t.Context(), []string{"healthcheck", "--admin", srv.URL}, io.Discard, io.Discard)
	if err == nil || exitStatus(err, io.Discard) != 1 || !strings.Contains(err.Error(), srv.URL+"/livez answers 503") {
		t.Error(err)
	}
}
