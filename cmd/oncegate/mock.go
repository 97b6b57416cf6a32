package main

import (
	"fmt"
	"net"
	"os"

	"oncegate/providers/mock"
)

type mockCommand struct {
	Listen string `help:"Where to listen; ${default} if left out." placeholder:"ADDR" default:"127.0.0.1:9090"`
	Script string `help:"What it answers, in order; without one it always answers well." placeholder:"FILE"`
}

func (c *mockCommand) Run(in *invocation) error {
	var script mock.Script
	if c.Script != "" {
		text, err := os.ReadFile(c.Script)
		if err != nil {
			return usage{err}
		}
		if script, err = mock.ParseScript(text); err != nil {
			return usage{fmt.Errorf("%s: %w", c.Script, err)}
		}
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(in.stdout, "mock upstream: http://%s/v1\nits counts:    http://%[1]s/_mock/stats\n", l.Addr())
	ctx, stop := onSignal(in.ctx)
	defer stop()
	return mock.New(mock.Options{Script: script}).Serve(ctx, l)
}
