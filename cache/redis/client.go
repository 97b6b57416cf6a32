package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// timeout is for a dial, a read, a write and a wait for a connection. The
	// client's own are 3 to 5 s: a hung server would hold up every request.
	timeout = 500 * time.Millisecond
	// stepTimeout is for all of them together, so that a request knows within
	// a second that it must do without.
	stepTimeout = 800 * time.Millisecond
	// acknowledge is how long replicas may take. Two of them, for a script that
	// the server does not have yet, are within a step.
	acknowledge = 300 * time.Millisecond
	// redirections that a step follows, each after the server said that it did
	// not run it
	redirections = 4
)

// client runs scripts on the server that has their keys. A script is sent once:
// a second time only where the server said that it did not run it.
type client struct {
	universal redis.UniversalClient
	cluster   *redis.ClusterClient // nil: there is one server
	sentinels bool
	dialer    *dialer
}

var quiet sync.Once

// connect makes a client. It dials nothing. greet is called on each new
// connection; its error refuses the connection.
func connect(a address, poolSize int, timeout time.Duration, greet func(ctx context.Context, addr string, cn *redis.Conn) error) *client {
	// It reports to standard error; what matters comes back as an error.
	quiet.Do(logging.Disable)
	if poolSize <= 0 {
		poolSize = max(64, 10*runtime.GOMAXPROCS(0))
	}
	d := &dialer{tls: a.tls}
	o := redis.Options{
		Addr: a.hosts[0], Username: a.user, Password: a.password, DB: a.db, Dialer: d.dial,
		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,
		// Nothing that a step does not need: the older protocol has all there
		// is to a step, and no pushes in between.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	onConnect := func(addr string) func(context.Context, *redis.Conn) error {
		return func(ctx context.Context, cn *redis.Conn) error { return greet(ctx, addr, cn) }
	}
	o.OnConnect = onConnect("")
	switch a.kind {
	case cluster:
		c := redis.NewClusterClient(clusterOptions(a, o, onConnect))
		return &client{universal: c, cluster: c, dialer: d}
	case sentinel:
		return &client{universal: redis.NewFailoverClient(sentinelOptions(a, o)), sentinels: true, dialer: d}
	}
	return &client{universal: redis.NewClient(&o), dialer: d}
}

func clusterOptions(a address, o redis.Options, onConnect func(string) func(context.Context, *redis.Conn) error) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: a.hosts, Username: o.Username, Password: o.Password, Dialer: o.Dialer,
		MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries, MaxRedirects: -1,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		ContextTimeoutEnabled: true, PoolSize: o.PoolSize,
		Protocol: o.Protocol, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
		NewClient: func(o *redis.Options) *redis.Client {
			o.OnConnect = onConnect(o.Addr)
			return redis.NewClient(o)
		},
	}
}

func sentinelOptions(a address, o redis.Options) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: a.master, SentinelAddrs: a.hosts,
		SentinelUsername: a.sentinelUser, SentinelPassword: a.sentinelPassword,
		Username: o.Username, Password: o.Password, DB: o.DB, Dialer: o.Dialer,
		MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout,
		ContextTimeoutEnabled: true, PoolSize: o.PoolSize,
		Protocol: o.Protocol, DisableIdentity: true,
		OnConnect: o.OnConnect,
	}
}

// do runs a script once. All keys have the tag of the first. An error is the
// client's. With acked it waits until so many replicas have what the script
// wrote, for as long as acknowledge, and says how many have.
func (c *client) do(ctx context.Context, s *script, keys []string, args []any, acked *int) (any, error) {
	if c.cluster == nil {
		return s.run(ctx, c.universal, false, keys, args, acked)
	}
	// Not by the cluster client itself: whatever its settings, it sends a
	// script again when a connection ends.
	node, err := c.cluster.MasterForKey(ctx, keys[0])
	if err != nil {
		return nil, unsent(err)
	}
	asking := false
	for range redirections {
		reply, err := s.run(ctx, node, asking, keys, args, acked)
		var addr string
		if moved, ok := redis.IsMovedError(err); ok {
			addr, asking = moved, false
		} else if ask, ok := redis.IsAskError(err); ok {
			addr, asking = ask, true
		} else {
			if err != nil {
				c.cluster.ReloadState(ctx) // behind: the next step may go elsewhere
			}
			return reply, err
		}
		if node, err = c.at(ctx, addr); err != nil {
			return nil, unsent(err)
		}
	}
	return nil, unsent(fmt.Errorf("the cluster sent a step from server to server %d times", redirections))
}

// giveUp drops the idle connections to the server that has a key.
func (c *client) giveUp(ctx context.Context, key string) {
	if c.cluster == nil {
		c.dialer.giveUp("")
	} else if server, err := c.cluster.MasterForKey(ctx, key); err == nil {
		c.dialer.giveUp(server.Options().Addr)
	}
}

// addr is what the server that has a key is called in greet.
func (c *client) addr(key string) string {
	if c.cluster == nil {
		return ""
	}
	server, err := c.cluster.MasterForKey(context.Background(), key)
	if err != nil {
		return ""
	}
	return server.Options().Addr
}

// at gives the client of one of the cluster's servers.
func (c *client) at(ctx context.Context, addr string) (found *redis.Client, err error) {
	var mu sync.Mutex
	err = c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == addr {
			mu.Lock()
			found = node
			mu.Unlock()
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("the cluster names %s, which it does not list as a master", addr)
	}
	return found, err
}

// run sends the script by its hash, and whole to a server that does not have
// it yet.
func (s *script) run(ctx context.Context, to redis.Cmdable, asking bool, keys []string, args []any, acked *int) (any, error) {
	reply, err := s.send(ctx, to, asking, "evalsha", s.hash, keys, args, acked)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return s.send(ctx, to, asking, "eval", s.text, keys, args, acked)
	}
	return reply, err
}

func (s *script) send(ctx context.Context, to redis.Cmdable, asking bool, how, what string, keys []string, args []any, acked *int) (any, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, how, what, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	if asking || acked != nil { // these go on one connection
		pipe := to.Pipeline()
		if asking { // for the command after it
			pipe.Do(ctx, "asking")
		}
		cmd := pipe.Do(ctx, all...)
		var wait *redis.Cmd
		if acked != nil { // for what this connection wrote
			wait = pipe.Do(ctx, "wait", *acked, acknowledge.Milliseconds())
		}
		_, err := pipe.Exec(ctx)
		if err != nil && cmd.Err() == nil && (wait == nil || wait.Err() == nil) {
			return nil, err
		}
		if wait != nil && cmd.Err() == nil {
			if *acked, err = wait.Int(); err != nil {
				return nil, fmt.Errorf("%w: %w", errUnacknowledged, err)
			}
		}
		return cmd.Result()
	}
	cmd := redis.NewCmd(ctx, all...)
	if err := to.(interface {
		Process(context.Context, redis.Cmder) error
	}).Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// errUnacknowledged says that a step was done, and not confirmed by as many
// replicas as it must.
var errUnacknowledged = errors.New("not as many replicas have it as store.replicas asks for")

// errUnsent marks what happened before the step was sent.
var errUnsent = errors.New("it was not sent")

func unsent(err error) error { return fmt.Errorf("%w: %w", errUnsent, err) }
