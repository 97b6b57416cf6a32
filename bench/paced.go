//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// pace is between two events of a stream: about what a model does.
const pace = 50 * time.Millisecond

// paced opens so many streams of equal requests, each at all of the peers, and
// lets them run. The first peer leads; of the last it gives the CPU meanwhile,
// in percent of a core. open is called once all have their first chunk.
func paced(peers []*peer, up *upstream, n int, open func() error) (percent float64, err error) {
	release := sync.OnceFunc(up.hold())
	defer release()
	up.pace.Store(int64(pace))
	defer up.pace.Store(0)
	calls, last := up.calls.Load(), peers[len(peers)-1]
	var wg, opened sync.WaitGroup
	var failed failure
	opening := make(chan struct{}, 32)
	for range n {
		opened.Add(1)
		opening <- struct{}{}
		wg.Go(func() {
			c := clients{q: request{nonce: newNonce(), stream: true}}
			defer c.close()
			err := c.open(peers)
			<-opening
			opened.Done()
			if err == nil {
				err = c.rest()
			}
			if err != nil {
				failed.add(err)
			}
		})
	}
	opened.Wait()
	last.idle()
	if err := open(); err != nil {
		return 0, err
	}
	release()
	time.Sleep(2 * pace)
	begin, cpu := time.Now(), last.cpu()
	time.Sleep((chunks - 10) * pace)
	cpu, took := last.cpu()-cpu, time.Since(begin)
	wg.Wait()
	if err := failed.result(); err != nil {
		return 0, err
	}
	if calls = up.calls.Load() - calls; calls != int64(n) {
		return 0, fmt.Errorf("there were %d upstream calls", calls)
	}
	return 100 * cpu.Seconds() / took.Seconds(), nil
}

// clients ask peers for the same stream.
type clients struct {
	q     request
	conns []*conn
	heads []head
}

// open asks one peer after the other, so that it is known which one leads.
func (c *clients) open(peers []*peer) error {
	for _, p := range peers {
		k := &conn{addr: p.addr}
		c.conns = append(c.conns, k)
		if err := k.send(&c.q); err != nil {
			return err
		}
		h, err := k.head()
		if err != nil {
			return err
		}
		c.heads = append(c.heads, h)
		if _, err = k.r.Peek(1); err != nil { // its first chunk is here
			return err
		}
	}
	return nil
}

// rest reads all to their ends.
func (c *clients) rest() error {
	errs := make([]error, len(c.conns))
	var wg sync.WaitGroup
	for i, k := range c.conns {
		wg.Go(func() {
			k.c.SetDeadline(time.Now().Add(timeout))
			errs[i] = k.rest(&c.q, c.heads[i])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *clients) close() {
	for _, k := range c.conns {
		k.close()
	}
}
