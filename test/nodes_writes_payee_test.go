package test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The runs of random faults are longer, or those of before, by these.
var (
	writesFor  = flag.Duration("writes.for", 30*time.Second, "how long the history of writes runs")
	writesMany = flag.Int("writes.many", 10000, "how many writes are made under faults")
	writesSeed = flag.Uint64("writes.seed", 0, "seed of the random faults; 0: another each time")
)

// seeded gives a source of chances, and says which.
func seeded(t *testing.T) (seed uint64) {
	t.Helper()
	if seed = *writesSeed; seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-writes.seed=%d", seed)
	return seed
}

// chances are those of one name and number under a seed: whatever the order in
// which they are asked for, they are the same.
func chances(seed uint64, name string, n int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, name, " ", n)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// payee is an upstream that knows no keys: it makes a payment for every call
// that gets so far. Its answer tells which payment was made.
type payee struct {
	begun time.Time
	seed  uint64
	odds  func(*rand.Rand) fault
	kind  bool // guarded by mu: no more faults

	mu    sync.Mutex
	asked map[string]int    // calls, by ref
	done  map[string][]made // by ref
}

// made is one payment that was made.
type made struct {
	id       string
	from, to time.Duration // when it was made, since the payee began
}

// fault is what goes wrong with a call.
type fault struct {
	takes  time.Duration // before anything is done
	before up.Step       // in place of the payment, which is not made; may be nil
	after  up.Step       // in place of its answer; may be nil
}

func newPayee(seed uint64, odds func(*rand.Rand) fault) *payee {
	return &payee{begun: time.Now(), seed: seed, odds: odds, asked: map[string]int{}, done: map[string][]made{}}
}

// answer is what the payee does with a call.
func (b *payee) answer(c *up.Call) up.Step {
	ref := c.Field("ref").String()
	b.mu.Lock()
	n, kind := b.asked[ref], b.kind
	b.asked[ref]++
	b.mu.Unlock()
	var f fault
	if !kind {
		f = b.odds(chances(b.seed, ref, n))
	}
	return func(x *up.Exchange) {
		if f.takes > 0 {
			// The payee does not notice who leaves.
			<-time.After(f.takes)
		}
		if f.before != nil {
			f.before(x)
			return
		}
		id := b.make(ref)
		if f.after != nil {
			f.after(x)
			return
		}
		up.Status(201, paymentOf(id))(x)
	}
}

func paymentOf(id string) string { return fmt.Sprintf(`{"payment": %q}`, id) }

func (b *payee) make(ref string) (id string) {
	from := time.Since(b.begun)
	b.mu.Lock()
	defer b.mu.Unlock()
	id = fmt.Sprint(ref, "/", len(b.done[ref])+1)
	b.done[ref] = append(b.done[ref], made{id, from, time.Since(b.begun)})
	return id
}

// kindly ends the faults.
func (b *payee) kindly() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kind = true
}

// payments gives those that were made, by ref.
func (b *payee) payments() map[string][]made {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string][]made{}
	for ref, all := range b.done {
		out[ref] = slices.Clone(all)
	}
	return out
}

// wantOnce says that no payment should have been made twice.
func (b *payee) wantOnce(t *testing.T) {
	t.Helper()
	for ref, all := range b.payments() {
		if len(all) > 1 {
			t.Errorf("%s was executed %d times: %v", ref, len(all), all)
		}
	}
}

// customer is a client of its own, which gives up after a while.
type customer struct {
	client *http.Client
	ctx    context.Context
}

func newCustomer(t *testing.T, patience time.Duration) *customer {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &customer{&http.Client{Transport: transport, Timeout: patience}, t.Context()}
}

// told is what a client was told of a payment. Status 0: nothing.
type told struct {
	status   int
	outcome  string
	code     string
	record   string // Oncegate-Key
	id       string // of the payment
	body     string
	recorded bool
	again    bool // marked as replayed
}

func (p *customer) pay(g *harness.Gateway, key string, lines ...string) (told, error) {
	req, err := http.NewRequestWithContext(p.ctx, "POST", "http://"+g.Addr+payments, strings.NewReader(bill(key)))
	if err != nil {
		return told{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, l := range keyed(key, lines) {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Set(name, value)
	}
	req.GetBody = nil // this client sends nothing twice by itself
	res, err := p.client.Do(req)
	if err != nil {
		return told{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return told{}, err
	}
	return told{
		status:   res.StatusCode,
		outcome:  res.Header.Get("Oncegate-Outcome"),
		code:     gjson.GetBytes(body, "code").String(),
		record:   res.Header.Get("Oncegate-Key"),
		id:       gjson.GetBytes(body, "payment").String(),
		body:     string(body),
		recorded: res.Header.Get("Oncegate-Recorded") != "false",
		again:    res.Header.Get("Idempotent-Replayed") == "true",
	}, nil
}
