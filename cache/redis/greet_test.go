package redis

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

func mustSecret(t testing.TB, s *Store) []byte {
	t.Helper()
	secret, err := s.Secret(t.Context())
	if err != nil || len(secret) < 32 {
		t.Fatalf("%d bytes, %v", len(secret), err)
	}
	return secret
}

func TestNodesShareASecret(t *testing.T) {
	server := redistest.Start(t)
	secrets := make([][]byte, 8)
	var wg sync.WaitGroup
	for n := range secrets {
		s := mustOpen(t, "redis://"+server.Addr, Options{})
		wg.Go(func() { secrets[n], _ = s.Secret(t.Context()) })
	}
	wg.Wait()
	for _, secret := range secrets {
		if len(secret) != 32 || !bytes.Equal(secret, secrets[0]) {
			t.Errorf("one has %x, another %x", secrets[0], secret)
		}
	}
}

func TestConfiguredSecret(t *testing.T) {
	server := redistest.Start(t)
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	open := func(secret []byte) *Store {
		return mustOpen(t, "redis://"+server.Addr, Options{Secret: secret})
	}
	refused := func(s *Store, want error) {
		t.Helper()
		_, err := s.Secret(t.Context())
		if !errors.Is(err, cache.ErrAway) || !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if got := mustSecret(t, open(one)); !bytes.Equal(got, one) {
		t.Errorf("%x", got)
	}
	if held, _ := server.Do("get", secretKey).(string); strings.Contains(held, string(one)) || strings.Contains(held, "0101") {
		t.Errorf("the store holds %q", held)
	}
	mustSecret(t, open(one))
	refused(open(two), errOtherSecret)
	refused(open(nil), errSecretIsSet)

	// On another server: the nodes above give an emptied one their secret back.
	server = redistest.Start(t)
	made := mustSecret(t, open(nil))
	mustSecret(t, open(made))
	refused(open(two), errOtherSecret)
}

// A Redis that comes back as another's refuses all steps; one that comes back
// empty gets the secret back.
func TestRestartWithAnotherSecret(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	secret := mustSecret(t, s)
	mustClaim(t, s, claim(1), cache.Lead)
	server.Kill()
	for s.away(0) == nil {
		_, _ = s.Claim(t.Context(), claim(1))
	}
	server.Restart() // and before this node is back, another has made it its own
	replaced(t, s, secret, server, "redis://"+server.Addr)
}

// replaced gives a store that is away another's secret, and takes it away.
func replaced(t *testing.T, s *Store, secret []byte, server *redistest.Server, url string) {
	t.Helper()
	server.Do("set", secretKey, secretMade+strings.Repeat("ab", 32))
	eventually(t, 5*time.Second, "the other secret is found", func() bool { return errors.Is(s.away(0), errOtherSecret) })
	if _, err := s.Claim(t.Context(), claim(0)); !errors.Is(err, cache.ErrAway) || !errors.Is(err, errOtherSecret) {
		t.Errorf("a claim: %v", err)
	}
	server.Do("del", secretKey)
	eventually(t, 5*time.Second, "it comes back", func() bool { return s.away(0) == nil })
	if got := mustSecret(t, mustOpen(t, url, Options{})); !bytes.Equal(got, secret) {
		t.Errorf("the emptied store has the secret %x, this node %x", got, secret)
	}
	mustClaim(t, s, claim(0), cache.Lead)
}

func TestDurability(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	if got := s.Durability(); !strings.HasPrefix(got, "relaxed: ") { // not connected yet, or the ledger was
		t.Error(got)
	}
	mustSecret(t, s)
	for _, word := range []string{"relaxed: ", `appendonly is "no", not "yes"`, `appendfsync is "everysec", not "always"`} {
		if got := s.Durability(); !strings.Contains(got, word) {
			t.Errorf("%s: no word of %s", got, word)
		}
	}
	for _, set := range [][]any{{"appendonly", "yes"}, {"appendfsync", "always"}, {"maxmemory-policy", "allkeys-lru"}} {
		server.Do(append([]any{"config", "set"}, set...)...)
	}
	next := mustOpen(t, "redis://"+server.Addr, Options{})
	mustSecret(t, next)
	if got := next.Durability(); got != `relaxed: maxmemory-policy is "allkeys-lru", not "noeviction"` {
		t.Error(got)
	}
	server.Do("config", "set", "maxmemory-policy", "noeviction")
	next = mustOpen(t, "redis://"+server.Addr, Options{})
	mustSecret(t, next)
	if got := next.Durability(); got != "strict" {
		t.Error(got)
	}

	// Who may not read it can't know it, and works all the same.
	server.Do("acl", "setuser", "gate", "on", ">pw", "~oncegate:*", "&oncegate:*", "+@all", "-@admin", "-config")
	next = mustOpen(t, "redis://gate:pw@"+server.Addr, Options{})
	mustSecret(t, next)
	if got := next.Durability(); !strings.HasPrefix(got, "relaxed: appendonly can't be read") {
		t.Error(got)
	}
	mustClaim(t, next, claim(1), cache.Lead)
}

// The rights that the messages ask for are enough, and what is outside of them
// is not touched.
func TestAccessList(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "root", "--appendonly", "yes", "--appendfsync", "always")
	server.Do("acl", "setuser", "gate", "on", ">p@ss/word", "~oncegate:*", "&oncegate:*", "+@all", "-@admin", "+config|get")
	s := mustOpen(t, "redis://gate:p%40ss%2Fword@"+server.Addr, Options{})
	mustSecret(t, s)
	if got := s.Durability(); got != "strict" {
		t.Error(got)
	}
	follows(t, s, s)

	for _, url := range []string{"redis://gate:hunter2@" + server.Addr, "redis://:hunter2@" + server.Addr, "redis://" + server.Addr} {
		s := mustOpen(t, url, Options{})
		_, err := s.Secret(t.Context())
		if !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "check user and password in store.url") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := s.Claim(t.Context(), claim(1)); !errors.Is(err, cache.ErrAway) || waiting(s) != 0 {
			t.Errorf("%s: a claim: %v, %d wait to be given back", url, err, waiting(s))
		}
	}
}

func TestTLS(t *testing.T) {
	cert, settings := certificate(t)
	server := redistest.Start(t, settings...)

	s := mustOpen(t, "rediss://"+server.Addr+"?ca="+cert, Options{})
	mustSecret(t, s)
	follows(t, s, s)
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	mustSecret(t, mustOpen(t, "redis://"+server.Addr, Options{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}))

	for url, word := range map[string]string{"rediss://" + server.Addr: "certificate", "redis://" + server.Addr: ""} {
		s := mustOpen(t, url, Options{Oops: func(string, error) {}})
		eventually(t, 5*time.Second, url+" is refused: "+word, func() bool { // a busy machine may take too long for it
			_, err := s.Secret(t.Context())
			return errors.Is(err, cache.ErrAway) && strings.Contains(err.Error(), word)
		})
	}
}

// A connection whose greeting was not answered in time is not used: what comes
// late would be taken for the answer to a step.
func TestLateGreeting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	p.Lose(func(reply []byte) bool {
		if bytes.Contains(reply, []byte("proto")) { // what comes before it was in time
			p.Delay(timeout + 100*time.Millisecond)
		}
		return false
	})
	s := mustOpen(t, "redis://"+p.Addr, Options{})
	for range 2 {
		p.Delay(0)
		_, err := s.Claim(t.Context(), claim(1))
		if !errors.Is(err, cache.ErrAway) || !errors.Is(err, errUnsent) {
			t.Errorf("%v", err)
		}
	}
}
