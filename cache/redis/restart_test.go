package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// load is callers that claim and settle, each a key of its own, one after the
// other.
type load struct {
	done   atomic.Int64 // steps that had an answer
	failed atomic.Int64
	last   atomic.Int64 // when the last one failed, by the wall clock's nanoseconds
}

func startLoad(t *testing.T, s *Store, callers int) *load {
	l := new(load)
	var wg sync.WaitGroup
	var key atomic.Uint64
	for range callers {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-t.Context().Done():
					return
				}
				c := claim(0)
				binary.BigEndian.PutUint64(c.Key[:], key.Add(1)<<8|uint64(c.Key[0]))
				g, err := s.Claim(t.Context(), c)
				if err == nil {
					err = s.Settle(t.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, answer("a"))
				}
				if err != nil {
					l.failed.Add(1)
					l.last.Store(time.Now().UnixNano())
					continue
				}
				l.done.Add(1)
			}
		})
	}
	t.Cleanup(wg.Wait) // after the test's context has ended
	return l
}

// A server that is restarted under load is used again within a second of its
// being back, whatever connections there were; and while it is away it is
// asked for by the probe alone (B079).
func TestRestartUnderLoad(t *testing.T) {
	const pool = 8
	for name, way := range map[string]func(t *testing.T) (server *redistest.Server, url string){
		"directly": func(t *testing.T) (*redistest.Server, string) {
			server := redistest.Start(t)
			return server, "redis://" + server.Addr
		},
		// As through a balancer: it takes connections that lead nowhere.
		"by a way that is there": func(t *testing.T) (*redistest.Server, string) {
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr)
			return server, "redis://" + p.Addr
		},
		"slow": func(t *testing.T) (*redistest.Server, string) {
			server := redistest.Start(t)
			p := redistest.NewProxy(t, server.Addr)
			p.Delay(30 * time.Millisecond)
			return server, "redis://" + p.Addr
		},
		"over TLS": func(t *testing.T) (*redistest.Server, string) {
			cert, settings := certificate(t)
			server := redistest.Start(t, settings...)
			return server, "rediss://" + server.Addr + "?ca=" + cert
		},
	} {
		for _, long := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", away for long", false: ", at once"}[long], func(t *testing.T) {
				t.Parallel()
				server, url := way(t)
				s := mustOpen(t, url, Options{PoolSize: pool, Oops: func(string, error) {}})
				mustSecret(t, s)
				l := startLoad(t, s, 2*pool)
				eventually(t, 10*time.Second, "it works", func() bool { return l.done.Load() > 100 })
				if n := l.failed.Load(); n > 0 {
					t.Errorf("%d steps failed before anything was wrong", n)
				}
				server.Kill()
				if long {
					eventually(t, 2*time.Second, "it is away", func() bool { return s.away(0) != nil })
					<-time.After(300 * time.Millisecond) // what was on its way has come out
					dialled := s.client.dialer.made.Load()
					<-time.After(2500 * time.Millisecond)
					if n := s.client.dialer.made.Load() - dialled; n > 3 {
						t.Errorf("%d connections were asked for while the server was away for 2.5 s", n)
					}
				}
				server.Restart()
				back, failed, dialled := time.Now(), l.failed.Load(), s.client.dialer.made.Load()
				eventually(t, 3*time.Second, "it works again", func() bool { return l.done.Load() > 100 && s.away(0) == nil })
				<-time.After(time.Until(back.Add(2500 * time.Millisecond)))
				last := time.Unix(0, l.last.Load()).Sub(back)
				t.Logf("it was used again after %v; %d steps failed meanwhile", max(0, last), l.failed.Load()-failed)
				if last > probeEvery+500*time.Millisecond {
					t.Errorf("a step failed %v after the server was back", last)
				}
				if n := s.client.dialer.made.Load() - dialled; n > 2*pool {
					t.Errorf("%d connections were made to the restarted server, for a pool of %d", n, pool)
				}
			})
		}
	}
}

// A server that was replaced without a word knows none of the connections: one
// step is lost to that, and not one for each.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	s := mustOpen(t, "redis://"+p.Addr, Options{})
	p.Delay(30 * time.Millisecond)
	var wg sync.WaitGroup
	for n := range byte(8) {
		wg.Go(func() { mustClaim(t, s, claim(n), cache.Lead) })
	}
	wg.Wait()
	if n := p.Open(); n < 8 {
		t.Fatalf("there are %d connections only", n)
	}
	p.Delay(0)
	p.Forget()
	failed := 0
	for n := range byte(16) {
		if _, err := s.Claim(t.Context(), claim(100+n)); err != nil {
			failed++
		}
	}
	if failed != 1 || s.away(0) != nil {
		t.Errorf("%d steps failed; away: %v", failed, s.away(0))
	}
}

// Steps that find no connection free in time say nothing of the server.
func TestManyStepsAtOnceAreNoOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	s := mustOpen(t, "redis://"+p.Addr, Options{PoolSize: 1})
	mustClaim(t, s, claim(99), cache.Lead) // the script is known then
	p.Delay(100 * time.Millisecond)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for n := range byte(16) {
		wg.Go(func() {
			if _, err := s.Claim(t.Context(), claim(n)); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() < failuresAway {
		t.Fatalf("%d steps found no connection", failed.Load())
	}
	if err := s.away(0); err != nil {
		t.Error(err)
	}
}

// certificate makes one for the loopback address, and gives its file and a
// server's settings.
func certificate(t *testing.T) (file string, settings []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file = write("cert.pem", "CERTIFICATE", der)
	return file, []string{"--tls-cert-file", file, "--tls-key-file", write("key.pem", "EC PRIVATE KEY", keyDER),
		"--tls-ca-cert-file", file, "--tls-auth-clients", "no"}
}
