package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

type healthcheckCommand struct {
	configFile
	Admin string `help:"The admin listener; else the one that the configuration names." placeholder:"URL"`
}

func (c *healthcheckCommand) Run(in *invocation) error {
	base, token := c.Admin, ""
	if base == "" {
		// A fault elsewhere in the configuration does not matter here: it need not
		// even be the one that the running gateway was started with.
		conf, _ := c.load(in.env, nil)
		base, token = reachable(conf.Server.AdminListen), conf.Auth.AdminToken
	}
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return usage{fmt.Errorf("--admin %q is not a URL: write it as http://127.0.0.1:8081", c.Admin)}
	}
	ctx, cancel := context.WithTimeout(in.ctx, 3*time.Second)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("livez").String(), nil)
	if err != nil {
		return usage{err}
	}
	if token != "" {
		ask.Header.Set("Authorization", "Bearer "+token)
	}
	// Straight to it: a proxy of the environment is for the upstreams.
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(ask)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w", ask.URL.Redacted(), err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", ask.URL.Redacted(), answer.Status)
	}
	_, err = fmt.Fprintln(in.stdout, "ok")
	return err
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
