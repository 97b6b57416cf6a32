package local

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
	"oncegate/cache/cachetest"
)

func engine(o Options) cachetest.Engine {
	return cachetest.Engine{
		Case: synctest.Test,
		Open: func(t *testing.T, zone *time.Location) (cache.Store, func() cache.Store) {
			dir, o := t.TempDir(), o
			o.Zone = zone
			open := func() cache.Store { return mustOpen(t, dir, o) }
			return open(), open
		},
		Pass: func(d time.Duration) { time.Sleep(d) },
	}
}

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.Oops == nil {
		o.Oops = func(step string, err error) {
			if !errors.Is(err, cache.ErrLine) {
				t.Errorf("%s: %v", step, err)
			}
		}
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) { cachetest.Run(t, engine(Options{})) }
