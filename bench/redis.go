//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	redis "github.com/redis/go-redis/v9"
)

// server is a redis-server of this run's own, on the load's core.
type server struct {
	*process
	addr   string
	client *redis.Client
}

func startRedis(name, dir string) (*server, error) {
	dir, err := os.MkdirTemp(dir, "redis")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	p, err := startProcess(cores.load, filepath.Join(dir, "log"), name, "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	s := &server{process: p, addr: addr, client: redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err = s.client.Ping(context.Background()).Err(); err == nil {
			return s, nil
		}
		if dead := p.died(); dead != nil || time.Now().After(end) {
			s.stop()
			return nil, errors.Join(dead, err)
		}
	}
}

func (s *server) stop() {
	s.client.Close()
	s.process.stop()
}

func (s *server) url() string { return "redis://" + s.addr }

// steps is how many scripts were run so far: each is one round trip.
func (s *server) steps() (n int64, err error) {
	stats, err := s.client.Info(context.Background(), "commandstats").Result()
	for line := range strings.Lines(stats) {
		for _, name := range []string{"cmdstat_evalsha:calls=%d", "cmdstat_eval:calls=%d"} {
			var calls int64
			if _, err := fmt.Sscanf(line, name, &calls); err == nil {
				n += calls
			}
		}
	}
	return n, err
}

// subscribed is how many connections for notices each of two nodes has, which
// are alike.
func (s *server) subscribed() (float64, error) {
	list, err := s.client.Do(context.Background(), "client", "list", "type", "pubsub").Text()
	return float64(strings.Count(list, "\n")) / 2, err
}

// roundOnRedis measures a gateway on Redis once, and then a second one that
// follows what the first leads.
func roundOnRedis(name, dir string, up *upstream, o options, t *table) error {
	s, err := startRedis(name, dir)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := alone(s, dir, up, o, t); err != nil {
		return err
	}
	leader, err := startPeer(cores.load, dir, up, o, s.url())
	if err != nil {
		return err
	}
	defer leader.stop()
	follower, err := startPeer(cores.peer, dir, up, o, s.url())
	if err != nil {
		return err
	}
	defer follower.stop()
	percent, err := paced([]*peer{leader, follower}, up, o.followed, func() (err error) {
		t.subscribed, err = s.subscribed()
		return err
	})
	if err != nil {
		return fmt.Errorf("%d streams led on one node and followed on another: %w", o.followed, err)
	}
	t.followed, t.redis.paced = o.followed, best(t.redis.paced, percent)
	return nil
}

// alone measures calls that nobody shares.
func alone(s *server, dir string, up *upstream, o options, t *table) error {
	p, err := startPeer(cores.peer, dir, up, o, s.url())
	if err != nil {
		return err
	}
	defer p.stop()
	calls := up.calls.Load()
	steps, err := s.steps()
	if err != nil {
		return err
	}
	cpu, err := saturate(p, 32, o, unique(false, nil))
	if err != nil {
		return fmt.Errorf("unique requests: %w", err)
	}
	t.redis.unique = best(t.redis.unique, us(cpu))
	p.idle()
	after, err := s.steps()
	if err != nil {
		return err
	}
	t.trips = best(t.trips, float64(after-steps)/float64(up.calls.Load()-calls))
	m, err := median(p.addr, o.length)
	if err != nil {
		return err
	}
	t.redis.median = best(t.redis.median, us(m))
	return nil
}
