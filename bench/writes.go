//go:build linux

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// writers is how many write at once, beside the one that does alone.
const writers = 64

// write is a call of a tool under a key of its own. The tool is the same
// upstream, so that its answers are checked like any.
func write() request {
	nonce := newNonce()
	return request{nonce: nonce, path: "/tools/up/chat/completions", header: "Idempotency-Key: " + nonce + "\r\n"}
}

// rate is how many calls a second so many connections get answered.
func rate(p *peer, conns int, o options, next func() request) (float64, error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	var failed failure
	begin := time.Now()
	for range conns {
		wg.Go(func() {
			k := &conn{addr: p.addr}
			defer k.close()
			for time.Since(begin) < o.length {
				q := next()
				if err := k.do(&q); err != nil {
					failed.add(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.result(); err != nil {
		return 0, fmt.Errorf("%d writers: %w", conns, err)
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}
