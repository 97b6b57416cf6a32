package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"oncegate/cache"
	"oncegate/cmd/oncegate/config"
	"oncegate/gateway"
)

type serveCommand struct {
	configFile
	Listen   string        `help:"Where to listen, in place of server.listen." placeholder:"ADDR"`
	LogLevel zapcore.Level `help:"debug, info, warn or error." default:"info" env:"ONCEGATE_LOG_LEVEL"`
}

func (c *serveCommand) Run(in *invocation) (err error) {
	flags := map[string]string{}
	if c.Listen != "" {
		flags["server.listen"] = c.Listen
	}
	conf, err := c.load(in.env, flags)
	if err != nil {
		return err
	}
	log, flush := newLogger(in.stderr, c.LogLevel)
	defer flush()

	// Opened before signals are taken: it may wait for another process, and
	// whoever ends this one meanwhile does so at once.
	store, err := openStore(conf, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	ctx, stop := onSignal(in.ctx)
	defer stop()
	return serve(ctx, stop, conf, store, log, func(data, admin net.Addr) {
		greet(in.stdout, conf, c.path() == "", reachable(data.String()), reachable(admin.String()))
	})
}

// serve runs a gateway until ctx ends, then brings it down in order. again
// gives signals back once the first one was heard; ready is told where the
// gateway listens, once it does.
func serve(ctx context.Context, again func(), conf *config.Config, store opened, log *zap.Logger, ready func(data, admin net.Addr)) error {
	// Mock upstreams outlive ctx: calls in flight still need them.
	mocks, stopMocks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMocks()
	g, err := newGateway(mocks, conf, store, log)
	if errors.Is(err, cache.ErrAway) {
		return fmt.Errorf("store.url: the store can't be reached: is Redis running there, and may this machine connect? %w", err)
	}
	if err != nil {
		return err
	}
	data, admin, err := listen(conf.Server)
	if err != nil {
		return err
	}
	g.ListensAt(reachable(data.Addr().String()))
	servers := []*http.Server{
		newServer(g.Data(), log),
		newServer(g.Admin(), log),
	}
	servers[0].ConnContext = gateway.ConnContext
	failed := make(chan error, len(servers))
	go func() { failed <- servers[0].Serve(watched{data}) }()
	go func() { failed <- servers[1].Serve(admin) }()

	log.Info("serving", zap.Stringer("listen", data.Addr()), zap.Stringer("admin_listen", admin.Addr()), zap.String("version", buildVersion()))
	ready(data.Addr(), admin.Addr())
	select {
	case err = <-failed:
		err = fmt.Errorf("a listener failed: %w", err)
	case <-ctx.Done():
	}
	again()
	stopServing(g, servers, conf.Server, log)
	return err
}

// listen opens both listeners, or neither.
func listen(s config.Server) (data, admin net.Listener, err error) {
	if data, err = net.Listen("tcp", s.Listen); err != nil {
		return nil, nil, fmt.Errorf("server.listen: %w: is another gateway running? --listen names another address", err)
	}
	if admin, err = net.Listen("tcp", s.AdminListen); err != nil {
		data.Close()
		return nil, nil, fmt.Errorf("server.admin_listen: %w: is another gateway running? ONCEGATE_SERVER_ADMIN_LISTEN names another address", err)
	}
	return data, admin, nil
}

// newServer bounds what comes in, and nothing that goes out: a stream lasts as
// long as it lasts. Bodies are bounded where they are read.
func newServer(h http.Handler, log *zap.Logger) *http.Server {
	quiet, _ := zap.NewStdLogAt(log, zapcore.DebugLevel)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute, // longer than the load balancers in front keep theirs
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          quiet, // what clients do wrong on the wire
	}
}

// watched has the gateway see what becomes of an answer after its last byte.
type watched struct{ net.Listener }

func (w watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gateway.NewConn(c), nil
}

// stopServing brings a gateway down: readiness first, then the drain, then the
// connections.
func stopServing(g *gateway.Gateway, servers []*http.Server, s config.Server, log *zap.Logger) {
	log.Info("stopping", zap.Duration("delay", s.ShutdownDelay), zap.Duration("grace", s.ShutdownGrace))
	g.Unready()
	if s.ShutdownDelay > 0 {
		<-time.After(s.ShutdownDelay)
	}
	end := time.Now().Add(s.ShutdownGrace)
	grace, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	if err := g.Drain(grace); err != nil {
		log.Warn("calls were broken off at the end of the grace", zap.Error(err))
	}
	// Answers that are whole may still be on their way to slow readers: they
	// have what is left of the grace, and a moment in any case.
	last, cancel := context.WithTimeout(context.WithoutCancel(grace), max(time.Second, time.Until(end)))
	defer cancel()
	for _, srv := range servers {
		if err := srv.Shutdown(last); err != nil {
			srv.Close()
		}
	}
	log.Info("stopped")
}

// greet tells a person at a terminal what to do next. A gateway with real
// upstreams only has nothing to say beside its log.
func greet(w io.Writer, c *config.Config, noFile bool, data, admin string) {
	mocked := slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.Kind == "mock" })
	if !mocked {
		return
	}
	switch {
	case noFile:
		fmt.Fprintln(w, "no config file in sight: every model is answered by the built-in mock upstream")
	default:
		fmt.Fprintln(w, "some models are answered by the built-in mock upstream")
	}
	fmt.Fprintf(w, "  base_url   http://%s/v1\n  dashboard  http://%s\n", data, admin)
	key := ""
	if len(c.Auth.Keys) > 0 {
		key = ` -H "Authorization: Bearer $KEY"`
	}
	fmt.Fprintf(w, "one call, sent twice at once, is one call upstream:\n  for i in 1 2; do curl -si http://%s/v1/chat/completions%s -H 'Content-Type: application/json' -d '{\"model\":\"mock\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}' | grep -i oncegate-outcome & done; wait\n", data, key)
	for _, t := range c.Tools {
		if t.BaseURL == config.MockTool {
			fmt.Fprintf(w, "one write, sent again with its key, runs once:\n  k=$(date +%%s); for i in 1 2; do curl -si http://%s/tools/%s/payments%s -H \"Idempotency-Key: $k\" -H 'Content-Type: application/json' -d '{\"ref\":\"order 7\",\"amount\":5}' | grep -i oncegate-outcome; done\n", data, t.Name, key)
			break
		}
	}
}
