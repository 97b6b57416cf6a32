package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/cache/local"
	"oncegate/cache/redis"
	"oncegate/cmd/oncegate/config"
	"oncegate/gateway"
	"oncegate/prices"
	"oncegate/providers"
	"oncegate/providers/mock"
	"oncegate/web"
)

// opened is a store, and the journal of attempts where it has one.
type opened struct {
	cache.Store
	journal cache.Journal
	lost    func(book func([]cache.Attempt)) // has those booked that a dead process left in it
}

// openStore opens the store. The embedded one waits for another process to
// leave the directory as long as that one may take to stop.
func openStore(c *config.Config, log *zap.Logger) (opened, error) {
	oops := func(step string, err error) {
		log.Warn("a step behind at the store failed", zap.String("step", step), zap.Error(err))
	}
	dir := c.Store.Directory()
	if dir == "" {
		o := redisOptions(c, log)
		o.Oops = oops
		s, err := redis.Open(c.Store.URL, o)
		return opened{Store: s}, err
	}
	s, err := local.Open(dir, local.Options{
		LockWait: c.Server.ShutdownGrace, Secret: []byte(c.Store.Secret), Zone: c.Dashboard.Zone(), Oops: oops,
		Waiting: func(holder string) { // a warning, so that it is seen at once
			log.Warn("the store's directory is in use: waiting for its process to stop; if both are to run, give this one a directory of its own (store.url)",
				zap.String("directory", dir), zap.String("holder", holder), zap.Duration("at_most", c.Server.ShutdownGrace))
		},
	})
	if err != nil {
		return opened{}, err
	}
	// A sync blocks its thread. Go gives the thread's processor to others, but
	// only after a while that is longer than the sync: with one processor all
	// else waits (64 writers were answered 246 times a second, with two 2,443).
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
	return opened{Store: s, journal: s.Journal(), lost: s.Journal().Lost}, nil
}

func redisOptions(c *config.Config, log *zap.Logger) redis.Options {
	meanwhile := "completions run unprotected and writes are refused"
	if c.Store.OnOutage.Completions == "refuse" {
		meanwhile = "completions and writes are refused"
	}
	return redis.Options{
		Secret:   []byte(c.Store.Secret),
		KeepLost: true,
		Replicas: c.Store.Replicas,
		Zone:     c.Dashboard.Zone(),
		Away: func(cause error) {
			if cause != nil {
				log.Warn("the store is away", zap.String("until_it_is_back", meanwhile), zap.Error(cause))
			} else {
				log.Info("the store is back")
			}
		},
	}
}

// newGateway makes the gateway that the configuration describes. Mock
// upstreams run until ctx ends.
func newGateway(ctx context.Context, c *config.Config, store opened, log *zap.Logger) (*gateway.Gateway, error) {
	o := gateway.Options{
		Log:         log,
		Store:       store.Store,
		Journal:     store.journal,
		Lost:        store.lost,
		Zone:        c.Dashboard.Zone(),
		AuthOpen:    c.Auth.Open,
		Version:     buildVersion(),
		AdminToken:  c.Auth.AdminToken,
		MaxBody:     int64(c.Server.MaxBody),
		Buffered:    int64(c.Server.MaxBuffered),
		Heartbeat:   c.Server.Heartbeat,
		Origins:     c.Server.CORS.Origins,
		Lease:       c.Store.Lease,
		MaxAnswer:   int64(c.Store.MaxBody),
		Passthrough: c.Passthrough,
		ToolTTL:     min(c.Dedupe.TTL.Tool, c.Dedupe.TTL.Max),
		Tombstone:   c.Dedupe.TTL.Tombstone,
		Dedupe: gateway.Dedupe{
			Mode:   config.ModeOf(c.Dedupe.Mode),
			Wait:   c.Dedupe.Wait,
			Owed:   c.Dedupe.Owed,
			Linger: &c.Dedupe.Linger,
			TTL: gateway.TTL{
				Chat: c.Dedupe.TTL.Chat, Embeddings: c.Dedupe.TTL.Embeddings, Long: c.Dedupe.TTL.Long, Max: c.Dedupe.TTL.Max,
				ScaleBytes: int64(c.Dedupe.TTL.ScaleBytes),
			},
			Ignore:  c.Dedupe.Ignore,
			Headers: c.Dedupe.Headers,
		},
	}
	page, err := web.Handler()
	if err != nil {
		return nil, err
	}
	o.Page = page
	o.RefuseUnprotected = c.Store.OnOutage.Completions == "refuse"
	for _, k := range c.Auth.Keys {
		key := gateway.ClientKey{Name: k.Name, Models: k.Models, Tools: k.Tools, Mode: config.ModeOf(k.Dedupe)}
		if _, err := hex.Decode(key.Hash[:], []byte(strings.TrimPrefix(k.Hash, "sha256:"))); err != nil {
			return nil, fmt.Errorf("the hash of key %s: %w", k.Name, err)
		}
		o.Keys = append(o.Keys, key)
	}
	book := c.Book()
	o.Prices = book
	for _, v := range c.Values() {
		o.Config = append(o.Config, gateway.ConfigValue{Path: v.Path, Value: v.Text, Source: v.Place.String()})
	}
	for _, p := range c.Providers {
		up, err := newUpstream(ctx, c, p, book)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		o.Upstreams = append(o.Upstreams, up)
	}
	for _, m := range c.Models {
		model := gateway.Model{Name: m.Name, Mode: config.ModeOf(m.Dedupe)}
		for _, t := range m.Targets {
			model.Targets = append(model.Targets, gateway.ModelTarget{Upstream: t.Provider, Model: t.Model, Weight: t.Weight, Context: t.Context})
		}
		o.Models = append(o.Models, model)
	}
	for _, t := range c.Tools {
		tool, err := newTool(ctx, c, t)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		o.Tools = append(o.Tools, tool)
	}
	return gateway.New(o)
}

func newUpstream(ctx context.Context, c *config.Config, p config.Provider, book *prices.Book) (gateway.Upstream, error) {
	policy := c.PolicyOf(p)
	builtIn := p.Kind == "mock" && p.BaseURL == ""
	if builtIn {
		address, err := startMock(ctx)
		if err != nil {
			return gateway.Upstream{}, err
		}
		p.BaseURL = "http://" + address
	}
	relay, err := providers.New(providers.Options{
		Name:        p.Name,
		Kind:        providers.Kind(p.Kind),
		BaseURL:     p.BaseURL,
		APIKeys:     p.APIKeys,
		StreamUsage: providers.StreamUsage(p.StreamUsage),
		Timeouts:    policy.Timeouts,
		MaxJudged:   int64(c.Store.MaxBody),
	})
	return gateway.Upstream{Provider: relay, Credentials: max(1, len(p.APIKeys)), Policy: policy, Prices: book.At(p.BaseURL), Mock: builtIn}, err
}

// mockLatency is how long a built-in mock upstream thinks: long enough for two
// calls from one shell line to meet, short enough for nobody to wait.
const mockLatency = 40 * time.Millisecond

// startMock runs a mock upstream on a port of its own, so that calls to it take
// the same way as to any other.
func startMock(ctx context.Context) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("a port for the mock upstream: %w", err)
	}
	go mock.New(mock.Options{Latency: mockLatency}).Serve(ctx, l)
	return l.Addr().String(), nil
}
