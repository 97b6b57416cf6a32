package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// everyNth chooses every nth reply.
func everyNth(n int) func([]byte) bool {
	var seen atomic.Int64
	return func([]byte) bool { return seen.Add(1)%int64(n) == 0 }
}

// killing ends all connections to a server every few milliseconds, until the
// test ends.
func killing(t *testing.T, server *redistest.Server) {
	client := server.Client()
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				client.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}
