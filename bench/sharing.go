//go:build linux

package main

import (
	"fmt"
	"sync"
	"time"
)

// followers sends batches of equal calls at once, each batch while its first
// call is still being answered, and gives the CPU time a call. The leaders'
// own cost is in it, spread over their followers.
func followers(p *peer, up *upstream, batches int) (time.Duration, error) {
	const batch = 200
	conns := make([]*conn, batch)
	for i := range conns {
		conns[i] = &conn{addr: p.addr}
		defer conns[i].close()
	}
	one := func() error {
		q := request{nonce: newNonce()}
		release := up.hold()
		var failed failure
		for _, k := range conns {
			if err := k.send(&q); err != nil {
				failed.add(err)
			}
		}
		p.idle() // all of them have joined
		release()
		var wg sync.WaitGroup
		for _, k := range conns {
			wg.Go(func() {
				if err := k.receive(&q); err != nil {
					k.close()
					failed.add(err)
				}
			})
		}
		wg.Wait()
		return failed.result()
	}
	if err := one(); err != nil { // the first one dials
		return 0, err
	}
	calls, cpu := up.calls.Load(), p.cpu()
	for range batches {
		if err := one(); err != nil {
			return 0, err
		}
	}
	cpu, calls = p.cpu()-cpu, up.calls.Load()-calls
	if calls != int64(batches) {
		return 0, fmt.Errorf("%d batches of equal calls made %d upstream calls", batches, calls)
	}
	return cpu / time.Duration(batches*batch), nil
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
	if _, err := saturate(p, 500, options{length: settle / 2}, unique(false, nil)); err != nil {
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
