package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	redis "github.com/redis/go-redis/v9"

	"oncegate/cache"
)

// failure is why a step has no answer. It is ErrAway, whatever the server
// said: that it can't work now is no verdict on a request.
type failure struct {
	cause error
	sent  bool // the step may have had its effect
	lasts bool // it will not do better at once: a time-out, a refusal
	// silent: there was no answer at all
	silent bool
	// loading: it reads its data, and answers when it has
	loading bool
	// forgotten: the server does not know the connection, and so may not know
	// the others either
	forgotten bool
}

func (f *failure) Error() string { return fmt.Sprintf("%v: %v", cache.ErrAway, f.cause) }

func (f *failure) Unwrap() []error {
	if f.sent {
		return []error{cache.ErrAway, cache.ErrLost, f.cause}
	}
	return []error{cache.ErrAway, f.cause}
}

// failed says what an error of the client comes to.
func failed(err error) *failure {
	f := &failure{cause: err}
	var (
		reply   redis.Error
		network *net.OpError
	)
	switch {
	case errors.Is(err, errUnacknowledged):
		f.sent = true
	case errors.As(err, &network) && network.Op == "dial":
		f.lasts, f.silent = true, true
	case errors.Is(err, errUnsent):
		f.lasts, f.silent, f.loading = true, isTimeout(err), redis.IsLoadingError(err)
	case errors.Is(err, errOtherSecret), errors.Is(err, errSecretIsSet), errors.Is(err, redis.ErrClosed):
		f.lasts = true
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		// Many steps at once. Those that have the connections tell of the server.
	case errors.As(err, &reply):
		// LOADING, READONLY, OOM, MISCONF, NOAUTH, CLUSTERDOWN and their like
		// come before a script's first write. (OOM and READONLY are looked at
		// at the first write, and not again after it.)
		f.lasts, f.loading = true, redis.IsLoadingError(err)
	case isTimeout(err):
		f.sent, f.lasts, f.silent = true, true, true
	default: // a connection that ended
		f.sent = true
		f.forgotten = errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}
	if f.lasts {
		f.cause = mend(err)
	}
	return f
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// mend adds to a server's refusal what to do about it, where that is known.
func mend(err error) error {
	switch {
	case redis.IsAuthError(err):
		return fmt.Errorf("%w (check user and password in store.url)", err)
	case redis.IsPermissionError(err):
		return fmt.Errorf("%w (the user needs ~oncegate:* &oncegate:* +@all -@admin +config|get)", err)
	case redis.IsOOMError(err):
		return fmt.Errorf("%w (give Redis more maxmemory)", err)
	case redis.IsReadOnlyError(err):
		return fmt.Errorf("%w (store.url names a replica: name the master, or use redis+sentinel://)", err)
	}
	return err
}
