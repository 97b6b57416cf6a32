package redis

import (
	"errors"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/redis/redistest"
)

// engine runs the suite on servers whose clock is moved ahead: what passes
// there passes for what they expire and for what a script is told the time is.
func engine(clock *redistest.Clock, url string, empty func()) cachetest.Engine {
	return cachetest.Engine{
		Open: func(t *testing.T, zone *time.Location) (cache.Store, func() cache.Store) {
			empty()
			open := func() cache.Store {
				s := mustOpen(t, url, Options{Zone: zone, patience: 10})
				s.now = clock.Now
				return s
			}
			return open(), open
		},
		// A key is there to the end of its last millisecond.
		Pass: func(d time.Duration) { clock.Pass(d + time.Millisecond) },
		Now:  clock.Now,
	}
}

func mustOpen(t testing.TB, url string, o Options) *Store {
	t.Helper()
	if o.Oops == nil {
		o.Oops = func(step string, err error) {
			if !errors.Is(err, cache.ErrLine) { // which tests book on purpose
				t.Errorf("%s: %v", step, err)
			}
		}
	}
	s, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	server := clock.Start()
	cachetest.Run(t, engine(clock, "redis://"+server.Addr, func() { server.Do("flushall") }))
}

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	servers := redistest.StartCluster(t, clock)
	cachetest.Run(t, engine(clock, servers.URL(), func() { servers.Do("flushall") }))
}
