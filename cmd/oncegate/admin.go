package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// adminFlag is how a command finds the running gateway that it asks.
type adminFlag struct {
	configFile
	Admin string `help:"The admin listener; else the one that the configuration names." placeholder:"URL"`
}

// maxAdminAnswer bounds, in bytes, what is read of an answer.
const maxAdminAnswer = 64 << 20

// get asks the gateway's admin listener. The token is the configuration's. An
// error names the address that was tried.
func (f adminFlag) get(in *invocation, path string, query url.Values, within time.Duration) ([]byte, error) {
	return f.ask(in, http.MethodGet, path, query, nil, within)
}

// post has it change something, as JSON says.
func (f adminFlag) post(in *invocation, path string, body []byte, within time.Duration) ([]byte, error) {
	return f.ask(in, http.MethodPost, path, nil, body, within)
}

func (f adminFlag) ask(in *invocation, method, path string, query url.Values, body []byte, within time.Duration) ([]byte, error) {
	// A fault elsewhere in the configuration does not matter here: it need not
	// even be the one that the running gateway was started with.
	conf, _ := f.load(in.env, nil)
	if f.Config != "" {
		if _, err := os.Stat(f.Config); err != nil {
			return nil, usage{fmt.Errorf("--config: %w", err)}
		}
	}
	base := cmp.Or(f.Admin, reachable(conf.Server.AdminListen))
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, usage{fmt.Errorf("--admin %q is not a URL: write it as http://127.0.0.1:8081", f.Admin)}
	}
	u = u.JoinPath(path)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(in.ctx, within)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, usage{err}
	}
	if ask.GetBody = nil; body != nil { // sent once
		ask.Header.Set("Content-Type", "application/json")
	}
	if conf.Auth.AdminToken != "" {
		ask.Header.Set("Authorization", "Bearer "+conf.Auth.AdminToken)
	}
	// Straight to it: a proxy of the environment is for the upstreams.
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(ask)
	if err != nil {
		return nil, fmt.Errorf("no gateway answers at %s: %w", ask.URL.Redacted(), err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAdminAnswer))
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s%s", ask.URL.Redacted(), answer.Status, said(text))
	}
	return text, err
}

// said is the message of a gateway's error.
func said(body []byte) string {
	var e struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		return ""
	}
	return ": " + e.Error.Message
}

// reachable is where to dial for an address that is listened on.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // what Go listens on as :: has it, too
	}
	return net.JoinHostPort(host, port)
}
