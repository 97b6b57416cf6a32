package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// onSignal gives a context that SIGINT or SIGTERM ends. stop gives the signals
// back to Go, whose way is to end the process at once: so a second signal does.
func onSignal(ctx context.Context) (_ context.Context, stop func()) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
