//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// measure runs floor and gateway in turn, and keeps the best figure of each:
// noise only ever adds.
func measure(o options) (*table, error) {
	t := &table{}
	dir, err := os.MkdirTemp("", "oncegate-bench-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	go func() { // the peers end with this process
		<-interrupted
		os.RemoveAll(dir)
		os.Exit(130)
	}()
	up, err := startUpstream()
	if err != nil {
		return t, err
	}
	defer up.Close()
	server, _ := exec.LookPath("redis-server") // where there is none, the table says so
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", i+1, o.rounds)
		direct, err := median(up.Addr().String(), o.length)
		if err != nil {
			return t, fmt.Errorf("the upstream itself: %w", err)
		}
		t.direct = best(t.direct, us(direct))
		if err := round(dir, up, o, t, i, false); err != nil {
			return t, fmt.Errorf("the floor: %w", err)
		}
		if o.floorOnly {
			continue
		}
		if err := round(dir, up, o, t, i, true); err != nil {
			return t, fmt.Errorf("oncegate: %w", err)
		}
		if server == "" {
			continue
		}
		if err := roundOnRedis(server, dir, up, o, t); err != nil {
			return t, fmt.Errorf("oncegate on Redis: %w", err)
		}
	}
	fmt.Fprint(os.Stderr, "\r                    \r")
	return t, nil
}

// round measures one peer once, alone on its core.
func round(dir string, up *upstream, o options, t *table, n int, gateway bool) error {
	store := ""
	if gateway {
		store = ownStore
	}
	p, err := startPeer(cores.peer, dir, up, o, store)
	if err != nil {
		return err
	}
	defer p.stop()
	c := &t.floor
	if gateway {
		c = &t.gateway
	}
	c.start = best(c.start, float64(p.ready.Microseconds())/1000)

	load := func(name string, into *float64, conns int, next func() request) {
		if err != nil {
			return
		}
		var cpu time.Duration
		if cpu, err = saturate(p, conns, o, next); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		*into = best(*into, us(cpu))
		if into == &t.floor.unique {
			t.noise = append(t.noise, us(cpu))
		}
	}
	load("unique requests", &c.unique, 32, unique(false, nil))
	load("streams", &c.stream, 16, unique(true, nil))
	if gateway {
		load("keyed requests", &c.keyed, 32, unique(false, func(nonce string) string { return "Idempotency-Key: " + nonce + "\r\n" }))
		same, calls := request{nonce: newNonce(), header: "Oncegate-Dedupe: always\r\n"}, up.calls.Load()
		if err == nil {
			k := &conn{addr: p.addr}
			err = k.do(&same) // the one that is replayed
			k.close()
		}
		load("replays", &c.replay, 32, func() request { return same })
		if calls = up.calls.Load() - calls; err == nil && calls != 1 {
			err = fmt.Errorf("replays made %d upstream calls", calls)
		}
		load("writes", &c.write, 32, write)
		once, calls := write(), up.calls.Load()
		load("replays of a write", &c.written, 32, func() request { return once })
		if calls = up.calls.Load() - calls; err == nil && calls != 1 {
			err = fmt.Errorf("replays of a write made %d upstream calls", calls)
		}
		for n, into := range map[int]*float64{1: &c.writer, writers: &c.writers} {
			if err == nil {
				var a float64
				a, err = rate(p, n, o, write)
				*into = max(*into, a)
			}
		}
		if err == nil {
			var cpu time.Duration
			if cpu, err = followers(p, up, o); err != nil {
				err = fmt.Errorf("followers: %w", err)
			} else {
				c.follower = best(c.follower, us(cpu))
			}
		}
	}
	if err != nil {
		return err
	}
	m, err := median(p.addr, o.length)
	if err != nil {
		return err
	}
	c.median = best(c.median, us(m))
	if !gateway {
		percent, err := paced([]*peer{p}, up, o.followed, func() error { return nil })
		if err != nil {
			return fmt.Errorf("paced streams: %w", err)
		}
		c.paced = best(c.paced, percent)
	}
	if n > 0 {
		return nil
	}

	// Once is enough for what does not depend on how fast the machine is just
	// now.
	if c.held, err = held(p, up, o.held, o.settle); err != nil {
		return fmt.Errorf("held streams: %w", err)
	}
	if gateway {
		if t.crowdCalls, err = crowd(p, up, o.crowd); err != nil {
			return fmt.Errorf("%d followers of a stream: %w", o.crowd, err)
		}
		t.crowd = o.crowd
	}
	return nil
}

// best is the smaller figure; 0 is none yet.
func best(old, now float64) float64 {
	if old == 0 || now < old {
		return now
	}
	return old
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
