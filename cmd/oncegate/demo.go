package main

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap/zapcore"

	"oncegate/cache/report"
	"oncegate/cmd/oncegate/config"
	"oncegate/cmd/oncegate/demo"
)

type demoCommand struct{}

// Run plays the demo: a gateway and an upstream that goes wrong, in this
// process and over real HTTP.
func (demoCommand) Run(in *invocation) (err error) {
	ctx, stop := onSignal(in.ctx)
	defer stop()
	log, flush := newLogger(in.stderr, zapcore.ErrorLevel)
	defer flush()
	var conf *config.Config
	on, err := openStage(ctx, log, func(dir, upstream string) (_ *config.Config, err error) {
		conf, err = config.Load(config.Source{Data: demo.Config, Env: []string{
			"ONCEGATE_DEMO_STORE=" + dir, "ONCEGATE_DEMO_UPSTREAM=http://" + upstream + "/v1",
		}})
		return conf, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.close()) }()

	fmt.Fprintln(in.stdout, "Playing each scene twice, straight to the upstream and through the gateway; about 10 s.")
	result, err := demo.Play(ctx, demo.Stage{Mock: on.mock, Upstream: on.upstream, Gateway: on.gateway})
	if err := errors.Join(err, on.stopGateway()); err != nil {
		return err
	}
	return printDemo(in, result, conf, on.store)
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
