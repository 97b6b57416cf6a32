package redis

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"oncegate/cache"
)

const (
	// forgetFollow is how long a log is listened to that nobody reads any
	// more: readers come and go between two batches.
	forgetFollow = 2 * time.Second
	// pingAfter of silence, to find out whether the connection still lives.
	pingAfter = 5 * time.Second
)

// notices hears what the scripts publish, over one connection for all logs
// that this node follows and for those of its own that others follow. Nothing
// depends on them: they are what makes reading quick.
type notices struct {
	s      *Store
	cancel context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup
	woken  chan struct{} // there are changes

	mu      sync.Mutex
	follows map[string]*follow // by channel
	changes map[string]bool    // channels to subscribe to, or not to
	pubsub  *redis.PubSub
}

func newNotices(s *Store) *notices {
	n := &notices{s: s, woken: make(chan struct{}, 1), follows: make(map[string]*follow), changes: make(map[string]bool)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.open()
	n.done.Go(n.receive)
	n.done.Go(n.change)
	return n
}

func (n *notices) stop() {
	n.cancel()
	n.mu.Lock()
	pubsub := n.pubsub
	n.mu.Unlock()
	pubsub.Close()
	n.done.Wait()
}

// open makes the subscription anew. Nothing is dialled yet.
func (n *notices) open() *redis.PubSub {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pubsub != nil {
		n.pubsub.Close()
	}
	n.pubsub = n.s.client.universal.Subscribe(n.ctx) // of nothing, so that it does not block
	n.changes[nodeChannel(n.s.node)] = true
	for channel, f := range n.follows {
		if f.lost() {
			n.changes[channel] = true
		}
	}
	n.wake()
	return n.pubsub
}

func (n *notices) wake() {
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// change carries subscriptions out, those of a moment together.
func (n *notices) change() {
	tick := time.NewTicker(forgetFollow / 2)
	defer tick.Stop()
	for {
		select {
		case <-n.woken:
		case <-tick.C:
			n.forget()
		case <-n.ctx.Done():
			return
		}
		n.mu.Lock()
		pubsub := n.pubsub
		var add, drop []string
		for channel, wanted := range n.changes {
			if wanted {
				add = append(add, channel)
			} else {
				drop = append(drop, channel)
			}
		}
		clear(n.changes)
		n.mu.Unlock()
		// Where one fails, it is in the list of what the next connection
		// subscribes to.
		if len(add) > 0 {
			_ = pubsub.Subscribe(n.ctx, add...)
		}
		if len(drop) > 0 {
			_ = pubsub.Unsubscribe(n.ctx, drop...)
		}
	}
}

// receive hands out what comes, and connects again after a pause where the
// connection ends.
func (n *notices) receive() {
	pubsub, silent, pause := n.pubsub, false, pollEvery
	for n.ctx.Err() == nil {
		message, err := pubsub.ReceiveTimeout(n.ctx, pingAfter)
		switch {
		case err == nil:
			n.handle(message)
			silent, pause = false, pollEvery
			continue
		case isTimeout(err) && !silent:
			silent = true
			_ = pubsub.Ping(n.ctx)
			continue
		case isTimeout(err):
			pubsub, silent = n.open(), false
			continue
		}
		n.lost()
		n.rest(pause)
		pause = min(2*pause, probeEvery)
		for n.ctx.Err() == nil && n.s.allAway() { // the probe finds out when it is back: one is enough
			n.rest(pollEvery)
		}
	}
}

func (n *notices) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-n.ctx.Done():
	}
}

func (n *notices) handle(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		if f := n.following(m.Channel); f != nil && m.Kind == "subscribe" {
			f.confirm()
		}
	case *redis.Message:
		if m.Channel == nodeChannel(n.s.node) {
			n.wanted(m.Payload)
		} else if f := n.following(m.Channel); f != nil {
			f.tell(m.Payload)
		}
	}
}

func (n *notices) following(channel string) *follow {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.follows[channel]
}

// lost wakes all readers: they may have missed something.
func (n *notices) lost() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.follows {
		f.lost()
	}
}

// wanted passes on that somebody reads a log of this node.
func (n *notices) wanted(payload string) {
	f := n.s.onWanted.Load()
	name, number, _ := strings.Cut(payload, " ")
	var h cache.Hold
	if got, err := hex.DecodeString(name); err != nil || copy(h.Key[:], got) != len(h.Key) {
		return
	}
	var err error
	if h.Fence, err = fence(number); err == nil && f != nil {
		(*f)(h)
	}
}

// OnWanted has f called as soon as somebody on another node wants to read the
// log of a claim that this process holds, so that it is appended from its
// beginning. f must not block. A notice may be lost, or come twice, or late:
// Renew says it again.
func (s *Store) OnWanted(f func(cache.Hold)) { s.onWanted.Store(&f) }

// follow adds a reader of a log.
func (n *notices) follow(channel string) *follow {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.follows[channel]
	if f == nil {
		f = &follow{channel: channel, told: make(chan struct{})}
		n.follows[channel] = f
	}
	f.readers++
	return f
}

// leave takes it away. over: there will be nothing more to read.
func (n *notices) leave(f *follow, over bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.readers--
	f.idle = time.Now()
	if over && f.readers == 0 {
		n.drop(f)
	}
}

// forget ends what has had no reader for a while.
func (n *notices) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.follows {
		if f.readers == 0 && time.Since(f.idle) > forgetFollow {
			n.drop(f)
		}
	}
}

// drop is called with n.mu held.
func (n *notices) drop(f *follow) {
	if n.follows[f.channel] != f {
		return
	}
	delete(n.follows, f.channel)
	f.mu.Lock()
	asking := f.asking
	f.mu.Unlock()
	if asking {
		n.changes[f.channel] = false
		n.wake()
	}
}

// subscribe asks for a log's notices, once.
func (n *notices) subscribe(f *follow) {
	f.mu.Lock()
	asking := f.asking
	f.asking = true
	f.mu.Unlock()
	if asking {
		return
	}
	n.mu.Lock()
	n.changes[f.channel] = true
	n.wake()
	n.mu.Unlock()
}
