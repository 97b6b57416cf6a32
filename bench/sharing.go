//go:build linux

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// followers has many clients ask for a few things over and over while the
// upstream takes its time, and gives the CPU time a call at saturation. The
// leaders' own cost is in it, spread over their followers.
func followers(p *peer, up *upstream, o options) (time.Duration, error) {
	things := make([]request, 4)
	for i := range things {
		things[i].nonce = newNonce()
	}
	up.delay.Store(int64(20 * time.Millisecond))
	defer up.delay.Store(0)
	var n atomic.Int64
	before := up.calls.Load()
	cpu, err := saturate(p, 400, o, func() request { return things[n.Add(1)%int64(len(things))] })
	if calls := up.calls.Load() - before; err == nil && calls*8 > n.Load() {
		err = fmt.Errorf("%d equal calls made %d upstream calls", n.Load(), calls)
	}
	return cpu, err
}

// crowd has many followers of one stream, which get its beginning and then
// the rest live. It gives the upstream calls that were made.
func crowd(p *peer, up *upstream, n int) (calls int64, err error) {
	q := request{nonce: newNonce(), stream: true}
	release := up.hold()
	before := up.calls.Load()
	var wg, sent sync.WaitGroup
	var failed failure
	sent.Add(n)
	for range n {
		wg.Go(func() {
			k := &conn{addr: p.addr}
			defer k.close()
			err := k.send(&q)
			sent.Done()
			if err == nil {
				err = k.receive(&q)
			}
			if err != nil {
				failed.add(err)
			}
		})
	}
	sent.Wait()
	p.idle()
	release()
	wg.Wait()
	return up.calls.Load() - before, failed.result()
}

// held opens so many streams, holds them all after their first chunk, and
// gives the memory that each adds, in KiB, to a peer that has been busy.
func held(p *peer, up *upstream, n int, settle time.Duration) (kib float64, err error) {
	if _, err := saturate(p, 500, options{length: max(settle/2, 2*time.Second)}, unique(false, nil)); err != nil {
		return 0, err
	}
	p.idle()
	before := p.rss()
	release := up.hold()
	var wg sync.WaitGroup
	var failed failure
	var open sync.WaitGroup
	opening := make(chan struct{}, 64)
	rest := make(chan struct{})
	for range n {
		open.Add(1)
		opening <- struct{}{}
		wg.Go(func() {
			k := &conn{addr: p.addr}
			defer k.close()
			q := request{nonce: newNonce(), stream: true}
			err := k.send(&q)
			var h head
			if err == nil {
				h, err = k.head()
			}
			if err == nil {
				_, err = k.r.Peek(1) // its first chunk is here
			}
			<-opening
			open.Done()
			<-rest
			if err == nil {
				k.c.SetDeadline(time.Now().Add(timeout))
				err = k.rest(&q, h)
			}
			if err != nil {
				failed.add(err)
			}
		})
	}
	open.Wait()
	p.idle()
	time.Sleep(settle)
	after := p.rss()
	release()
	close(rest)
	wg.Wait()
	return float64(after-before) / float64(n), failed.result()
}
