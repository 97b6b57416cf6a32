package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap/zapcore"

	"oncegate/cache/report"
	"oncegate/cmd/oncegate/config"
	"oncegate/cmd/oncegate/demo"
	"oncegate/providers/mock"
)

type demoCommand struct{}

// Run plays the demo: a gateway and an upstream that goes wrong, in this
// process and over real HTTP.
func (demoCommand) Run(in *invocation) (err error) {
	ctx, stop := onSignal(in.ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "oncegate-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	m := mock.New(mock.Options{})
	served := make(chan error, 1)
	mocks, stopMock := context.WithCancel(context.WithoutCancel(ctx))
	go func() { served <- m.Serve(mocks, upstream) }()
	defer func() { stopMock(); err = errors.Join(err, <-served) }()

	conf, err := config.Load(config.Source{Data: demo.Config, Env: []string{
		"ONCEGATE_DEMO_STORE=" + dir, "ONCEGATE_DEMO_UPSTREAM=http://" + upstream.Addr().String() + "/v1",
	}})
	if err != nil {
		return err
	}
	log, flush := newLogger(in.stderr, zapcore.ErrorLevel)
	defer flush()
	store, err := openStore(conf, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	// The gateway comes down before its store and its upstream do.
	fmt.Fprintln(in.stdout, "Playing each scene twice, straight to the upstream and through the gateway; about 10 s.")
	gates, stopGate := context.WithCancel(ctx)
	defer stopGate()
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve(gates, func() {}, conf, store, log, func(data, _ net.Addr) { ready <- data })
	}()
	select {
	case err := <-ended:
		return err
	case data := <-ready:
		result, played := demo.Play(ctx, demo.Stage{Mock: m, Upstream: upstream.Addr().String(), Gateway: data.String()})
		stopGate()
		if err := errors.Join(played, <-ended); err != nil {
			return err
		}
		return printDemo(in, result, conf, store)
	}
}

// printDemo prints the table, what it rests on, and the gateway's own account
// beside the upstream's count.
func printDemo(in *invocation, r *demo.Result, conf *config.Config, store opened) error {
	fmt.Fprintln(in.stdout)
	if err := r.Print(in.stdout); err != nil {
		return err
	}
	now := time.Now()
	sums, err := report.Make(in.ctx, store, report.Query{Since: now.Add(-time.Hour), Until: now}, now)
	if err != nil {
		return err
	}
	b := conf.Policy.Backoff
	_, err = fmt.Fprintf(in.stdout, `
Billed is the upstream's own count. Of what went through the gateway it counted %d, the gateway's ledger
%d billed and %d in doubt; %d requests were answered without a call of their own.
The demo's policy: up to %d attempts, backoff from %v up to %v with full jitter. Clients do as OpenAI's SDKs: they
mark a retry by x-stainless-retry-count. Those of the 503s try once.
`, r.Billed, sums.Total.Attempts.Billed, sums.Total.Attempts.Ambiguous, sums.Total.Saved.Requests,
		conf.Policy.Attempts, b.Base, b.Cap)
	return err
}
