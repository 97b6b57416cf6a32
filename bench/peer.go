//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// clientKey is what every call is made with: the gateway looks it up, the
// floor passes it on.
const clientKey = "ogk_bench"

// peer is a floor or a gateway, running.
type peer struct {
	*process
	addr  string
	ready time.Duration // from its start to its first 200
}

// ownStore is the embedded store, in a directory of the peer's own.
const ownStore = "local:"

// startPeer starts a peer on a core, and makes calls until one is answered. It
// is a gateway on that store, or the floor if there is none.
func startPeer(core int, dir string, up *upstream, o options, store string) (*peer, error) {
	dir, err := os.MkdirTemp(dir, "peer")
	if err != nil {
		return nil, err
	}
	listen, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name, args := self, []string{"floor", listen, "http://" + up.Addr().String()}
	if store != "" {
		if store == ownStore {
			store += filepath.Join(dir, "data")
		}
		admin, err := freeAddr()
		if err != nil {
			return nil, err
		}
		config := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(config, gatewayConfig(store, listen, admin, up.Addr().String()), 0o600); err != nil {
			return nil, err
		}
		name, args = o.binary, []string{"serve", "--config", config}
	}
	start := time.Now()
	p := &peer{addr: listen}
	if p.process, err = startProcess(core, filepath.Join(dir, "log"), name, args...); err != nil {
		return nil, err
	}
	if err := p.awaitReady(start); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *peer) awaitReady(start time.Time) error {
	k := &conn{addr: p.addr}
	defer k.close()
	last := errors.New("no call was made")
	for end := start.Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := p.died(); err != nil {
			return err
		}
		if last = k.do(&request{nonce: newNonce()}); last == nil {
			p.ready = time.Since(start)
			return nil
		}
	}
	return fmt.Errorf("no answer within 10 s: %w", last)
}

// gatewayConfig is a plain gateway with all that counts switched on: a key, a
// store, the default mode.
func gatewayConfig(store, listen, admin, up string) []byte {
	hash := sha256.Sum256([]byte(clientKey))
	return fmt.Appendf(nil, `server: {listen: %q, admin_listen: %q}
auth: {keys: [{name: bench, hash: "sha256:%s"}]}
store: {url: %q}
providers: [{name: up, kind: openai, base_url: "http://%s/v1", api_keys: [bench]}]
models: [{name: "*", targets: [{provider: up}]}]
tools: [{name: up, base_url: "http://%s/v1"}]
`, listen, admin, hex.EncodeToString(hash[:]), store, up, up)
}

// freeAddr finds a port that is free now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
