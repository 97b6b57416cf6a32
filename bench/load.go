//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// failure keeps the first error of many workers.
type failure struct {
	once sync.Once
	err  error
	n    atomic.Int64
}

func (f *failure) add(err error) {
	f.n.Add(1)
	f.once.Do(func() { f.err = err })
}

func (f *failure) result() error {
	if n := f.n.Load(); n > 0 {
		return fmt.Errorf("%d calls failed, the first with: %w", n, f.err)
	}
	return nil
}

// saturate keeps the peer busy from so many connections, and gives its CPU
// time a call. next makes each call.
func saturate(p *peer, conns int, o options, next func() request) (time.Duration, error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	var stop atomic.Bool
	var failed failure
	for range conns {
		wg.Go(func() {
			k := &conn{addr: p.addr}
			defer k.close()
			for !stop.Load() {
				q := next()
				if err := k.do(&q); err != nil {
					failed.add(err)
					return
				}
				done.Add(1)
			}
		})
	}
	time.Sleep(o.warm)
	n, cpu, own, begin := done.Load(), p.cpu(), ownCPU(), time.Now()
	time.Sleep(o.length)
	n, cpu, own = done.Load()-n, p.cpu()-cpu, ownCPU()-own
	if took := time.Since(begin); o.verbose && n > 0 {
		fmt.Fprintf(os.Stderr, "  %6.0f calls/s, %4.0f us of CPU each; the peer had %2.0f%% of a core, the load %2.0f%%\n",
			float64(n)/took.Seconds(), us(cpu)/float64(n), 100*cpu.Seconds()/took.Seconds(), 100*own.Seconds()/took.Seconds())
	}
	stop.Store(true)
	wg.Wait()
	if err := failed.result(); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fmt.Errorf("no call was answered in %v", o.length)
	}
	return cpu / time.Duration(n), nil
}

func unique(stream bool, header func(nonce string) string) func() request {
	return func() request {
		q := request{nonce: newNonce(), stream: stream}
		if header != nil {
			q.header = header(q.nonce)
		}
		return q
	}
}

// median makes 400 calls a second, whatever the answers take, and gives the
// median time of one.
func median(addr string, length time.Duration) (time.Duration, error) {
	const rate, workers = 400, 32
	begin := time.Now()
	var wg sync.WaitGroup
	var seq atomic.Int64
	var failed failure
	var mu sync.Mutex
	var all []time.Duration
	for range workers {
		wg.Go(func() {
			k := &conn{addr: addr}
			defer k.close()
			var mine []time.Duration
			for {
				due := begin.Add(time.Duration(seq.Add(1)) * time.Second / rate)
				if due.Sub(begin) > length {
					break
				}
				time.Sleep(time.Until(due))
				q := request{nonce: newNonce()}
				start := time.Now()
				if err := k.do(&q); err != nil {
					failed.add(err)
					break
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := failed.result(); err != nil {
		return 0, err
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
