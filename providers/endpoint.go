package providers

import (
	"net/http"
	"sync/atomic"
	"time"

	"oncegate/policy"
)

// endpoint is where an upstream is and how it is reached: what a provider of
// models and a tool have in common.
type endpoint struct {
	name      string
	base      base
	secrets   secrets
	timeouts  policy.Timeouts
	dialer    dialer
	conns     connections
	transport *http.Transport // for what conns is not made for; nil: nothing
	replays   atomic.Int64
	drains    atomic.Int64 // ends of answers being read in the background
}

// open makes e ready for use. It dials nothing. A connection that nobody uses
// is closed after idle.
func (e *endpoint) open(name string, b base, keys []string, timeouts policy.Timeouts, idle time.Duration) {
	e.name, e.base, e.secrets = name, b, newSecrets(keys)
	e.timeouts = policy.Config{Timeouts: timeouts}.Or(policy.Defaults()).Timeouts
	e.dialer = newDialer(e.timeouts.Connect)
	e.conns.idleFor = idle
	e.conns.dial = e.dialer.dial
	if b.scheme == "https" {
		e.conns.dial = e.dialer.dialTLS
	}
	if needsTransport(&b) {
		e.transport = newTransport(e.dialer, idle)
	}
}

// Name is the config's.
func (e *endpoint) Name() string { return e.name }

// TransportReplays counts requests that net/http set out to send a second time
// by itself. It must stay 0: attempts are the policy's to make.
func (e *endpoint) TransportReplays() int64 { return e.replays.Load() }

// Close closes the connections that nobody uses. Attempts under way go on.
func (e *endpoint) Close() {
	e.conns.close()
	if e.transport != nil {
		e.transport.CloseIdleConnections()
	}
}

// BaseURL is where the upstream is, without the query that goes with every
// call: that may hold a credential.
func (e *endpoint) BaseURL() string { return e.base.scheme + "://" + e.base.host + e.base.rawPath }
