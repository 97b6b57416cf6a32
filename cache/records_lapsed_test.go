package cache_test

import (
	"context"
	"testing"
	"time"

	"oncegate/cache"
)

// lapses is a store of which each claim finds out that a leader was lost.
type lapses struct {
	cache.Store
	asked, answer chan struct{}
}

func (s lapses) Claim(context.Context, cache.Claim) (cache.Grant, error) {
	close(s.asked)
	<-s.answer
	return cache.Grant{Role: cache.InDoubt, Lapsed: true}, nil
}

// waiting is a context that says once somebody waits for it.
type waiting struct {
	context.Context
	begun chan struct{}
}

func (w waiting) Done() <-chan struct{} {
	close(w.begun)
	return w.Context.Done()
}

// However many ask at once, a leader that was lost is found out about once.
func TestOneFindsOutThatALeaseLapsed(t *testing.T) {
	s := lapses{asked: make(chan struct{}), answer: make(chan struct{})}
	r := &cache.Records{Store: s, Lease: time.Second, Window: 1 << 20}
	claim := cache.Claim{Explicit: true, Write: new(cache.Write)}
	found := make(chan bool, 2)
	open := func(ctx context.Context) {
		e, err := r.Open(ctx, claim, time.Time{})
		if err != nil || e.Role != cache.InDoubt {
			t.Errorf("%+v %v", e, err)
			found <- false
			return
		}
		found <- e.Lapsed
	}
	go open(t.Context())
	<-s.asked
	w := waiting{t.Context(), make(chan struct{})}
	go open(w)
	<-w.begun
	close(s.answer)
	if one, other := <-found, <-found; one == other {
		t.Errorf("found out: %v and %v", one, other)
	}
}
