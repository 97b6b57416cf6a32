package redis

import (
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
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
	// beatEvery is how often that is looked at while logs are followed. An
	// answer to a ping comes after all that was published before it, and so says
	// of all of them at once that no notice is missing. Two without one, and the
	// readers ask, within pollEvery.
	beatEvery = pollEvery / 3
)

// notices hears what the scripts publish, over one connection for all logs
// that this node follows and for those of its own that others follow. Nothing
// depends on them: they are what makes reading quick.
type notices struct {
	s      *Store
	cancel context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup
	own    string        // the channel of this node
	woken  chan struct{} // there are changes

	heard atomic.Int64 // when something last came; by since

	mu      sync.Mutex
	follows map[string]*follow // by channel
	holds   map[cache.Hold]*follow
	changes map[string]bool // channels to subscribe to, or not to
	pubsub  *redis.PubSub
}

func newNotices(s *Store) *notices {
	n := &notices{s: s, own: nodeChannel(s.node), woken: make(chan struct{}, 1), follows: make(map[string]*follow), holds: make(map[cache.Hold]*follow), changes: make(map[string]bool)}
	n.ctx, n.cancel = context.WithCancel(context.WithValue(context.Background(), noticesKey{}, true))
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
	n.changes[n.own] = true
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
	tick, beat := time.NewTicker(forgetFollow/2), time.NewTicker(beatEvery)
	defer tick.Stop()
	defer beat.Stop()
	var h heartbeat
	for {
		select {
		case <-n.woken:
		case <-tick.C:
			n.forget()
		case <-beat.C:
			n.beat(&h)
			continue
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

// heartbeat is what one goroutine knows of the pings; by since.
type heartbeat struct{ pinged, doubted time.Duration }

// begun is where since counts from: a clock that is never set.
var begun = time.Now()

func since() time.Duration { return time.Since(begun) }

// beat sees to it that the connection shows, as long as logs are followed, that
// it lives. Of a cluster it would show that for one of the servers only: there
// each reader asks for itself.
func (n *notices) beat(h *heartbeat) {
	n.mu.Lock()
	pubsub, follows := n.pubsub, len(n.follows)
	n.mu.Unlock()
	now, heard := since(), time.Duration(n.heard.Load())
	switch {
	case n.s.client.cluster != nil, follows == 0, now-heard < beatEvery:
	case h.pinged <= heard:
		h.pinged = now
		_ = pubsub.Ping(n.ctx) // a failure shows where the answer is waited for
	case now-h.doubted >= pollEvery:
		h.doubted = now
		n.doubt()
	}
}

// doubt has all readers ask.
func (n *notices) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.follows {
		f.doubt()
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
			n.heard.Store(int64(since()))
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
		if m.Channel == n.own {
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
func (n *notices) follow(h cache.Hold) *follow {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.holds[h]
	if f == nil {
		f = &follow{hold: h, channel: logName(h), told: make(chan struct{})}
		n.follows[f.channel], n.holds[h] = f, f
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
	delete(n.holds, f.hold)
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
