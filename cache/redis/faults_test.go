package redis

import (
	"context"
	"strconv"
	"strings"
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
// test ends; but not before it has made some steps since the last time, so that
// a machine that is busy makes some, too.
func killing(t *testing.T, server *redistest.Server) {
	client := server.Client()
	steps := func() (n int) {
		text, _ := client.Info(context.Background(), "commandstats").Result()
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				v, _, _ = strings.Cut(v, ",")
				n, _ = strconv.Atoi(v)
			}
		}
		return n
	}
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for before := 0; ; {
			select {
			case <-tick.C:
				if now := steps(); now >= before+8 || now < before {
					before = now
					client.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
				}
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); done.Wait() })
}
