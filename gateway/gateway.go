// Package gateway carries one request from its client to an upstream and back,
// so that a call that is asked for twice runs once. path.go tells the story;
// start there.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/prices"
	"oncegate/providers"
)

// Options is what a gateway is made of. Zero values take the defaults of the
// configuration reference.
type Options struct {
	Log      *zap.Logger          // one line a request; nil: none
	Registry *prometheus.Registry // where the metrics go; nil: one of its own

	Store   cache.Store
	Journal cache.Journal // attempts, so that a crash leaves none uncounted; nil: not kept
	// Lost has those booked, as ambiguous, that a dead process left in the
	// journal, and then forgets them; nil: there are none.
	Lost func(book func([]cache.Attempt))

	Keys       []ClientKey   // empty: open
	AuthOpen   bool          // auth.open: the operator opened a listener that others can reach
	Version    string        // of the program, as it tells people
	AdminToken string        // guards the admin listener; empty: loopback hosts only
	Page       Page          // the dashboard; nil: there is none
	MaxBody    int64         // bytes of a request body, decoded
	Buffered   int64         // bytes of request bodies held at once
	Heartbeat  time.Duration // between comment lines of a silent stream
	Origins    []string      // CORS: allowed origins; empty: off

	Zone              *time.Location // in which the ledger's days begin; nil: UTC
	RefuseUnprotected bool           // while the store is away completions are refused; else they run without protection

	Lease     time.Duration // of a claim
	MaxAnswer int64         // bytes: the largest answer that is kept
	Dedupe    Dedupe

	Upstreams   []Upstream
	Models      []Model
	Passthrough string // name of the upstream that any other /v1 path goes to; empty: none

	Prices *prices.Book  // what /api/prices shows; nil: nothing
	Config []ConfigValue // what /api/config shows

	Tools     []Tool
	ToolTTL   time.Duration // how long the answer of a tool's write is kept; at most Dedupe.TTL.Max
	Tombstone time.Duration // how long the key of a write is remembered; ToolTTL where that is longer
}

// ClientKey is one of the gateway's own keys. Hash is the SHA-256 of the key.
type ClientKey struct {
	Name   string
	Hash   [32]byte
	Models []string    // names, * at the end for a prefix; empty: all
	Tools  []string    // as Models, but nil: all; empty: none
	Mode   *cache.Mode // nil: the model's, else the default

	secret []byte
	macs   *sync.Pool // see principal
}

// Dedupe says what is shared, and for how long.
type Dedupe struct {
	Mode    *cache.Mode    // nil: duplicates; images and speech retries
	Wait    time.Duration  // the longest a duplicate waits before 409
	Owed    time.Duration  // how long an undelivered answer waits for its unmarked retry
	Linger  *time.Duration // how long an abandoned stream goes on; nil: 10 s
	TTL     TTL
	Ignore  []string // JSON pointers left out of derived keys
	Headers []string // request headers that enter derived keys
}

// TTL is how long results are kept: a base times max(1, floor(input/ScaleBytes)), at most Max.
type TTL struct {
	Chat, Embeddings, Long, Max time.Duration
	ScaleBytes                  int64
}

// Upstream is one configured provider.
type Upstream struct {
	Provider    providers.Provider
	Credentials int // how many API keys it has; at least 1
	Policy      policy.Config
	Prices      *prices.List // nil: what its answers cost is known where they say so only
	Mock        bool         // it is the built-in mock: asking it costs nothing
}

// Model is a name that clients use, and where it leads. The name * stands for
// any other.
type Model struct {
	Name    string
	Mode    *cache.Mode
	Targets []ModelTarget
}

// ModelTarget is one place that a model may be served from.
type ModelTarget struct {
	Upstream string // a provider's name
	Model    string // as the upstream calls it; empty: by the client's name
	Weight   int    // share of first attempts; 0: only as a fallback
	Context  int    // its window in tokens; 0: unknown
}

// Gateway serves requests.
type Gateway struct {
	opt       Options
	log       *zap.Logger
	metrics   *metrics
	pulse     pulse
	address   atomic.Pointer[string] // where clients reach the data listener
	records   *cache.Records
	engine    policy.Engine
	routes    *routes
	tools     map[string]*tool // by name
	secret    []byte
	clients   map[[32]byte]*ClientKey
	anonymous principal
	buffers   *buffers
	documents *documents
	failed    failedCalls
	demo      demo
	live      live
	probes    *probes
	started   time.Time

	base    context.Context // of every record; cancelled when the grace is over
	cancel  context.CancelCauseFunc
	unready atomic.Bool
	stopped sync.Once
	running running
	workers workers
}

// New makes a gateway over a store that is open.
func New(o Options) (*Gateway, error) {
	if o.Store == nil {
		return nil, errors.New("gateway: no store")
	}
	setDefaults(&o)
	g := &Gateway{opt: o, log: o.Log, started: time.Now(), buffers: &buffers{max: o.Buffered}, workers: newWorkers(), documents: newDocuments()}
	if g.log == nil {
		g.log = zap.NewNop()
	}
	secret, err := o.Store.Secret(context.Background())
	if err != nil {
		return nil, err
	}
	g.secret = secret
	if g.routes, err = newRoutes(o); err != nil {
		return nil, err
	}
	g.tools = newTools(o.Tools)
	g.clients = make(map[[32]byte]*ClientKey, len(o.Keys))
	for i := range o.Keys {
		k := &o.Keys[i]
		k.secret, k.macs = g.derive("key", k.Name), new(sync.Pool)
		g.clients[k.Hash] = k
	}
	g.demo = newDemo(g)
	g.live.g = g
	g.anonymous = principal{name: "anonymous", secret: g.derive("anonymous", ""), macs: new(sync.Pool)}
	g.metrics = newMetrics(o, g.relaxed)
	g.metrics.begin(o, g.routes)
	o.Registry.MustRegister(targetMetrics{g.routes, g.tools}, unknownOutcomes{g})
	g.records = &cache.Records{
		Store: newTimed(o.Store, g.metrics.store), Lease: o.Lease, Window: o.MaxAnswer, Debt: o.Dedupe.Owed,
		Oops: func(step string, err error) {
			g.log.Warn("a step at the store failed", zap.String("step", step), zap.Error(err))
		},
	}
	if a, ok := o.Store.(announcer); ok {
		g.records.Shared = true
		a.OnWanted(g.records.Wanted)
	}
	if b, ok := o.Store.(giver); ok {
		g.records.GiveBack, g.records.Landed = b.GiveBack, b.Landed
	}
	g.records.Closed = g.workers.stop
	g.probes = newProbes(g)
	g.base, g.cancel = context.WithCancelCause(context.Background())
	if o.Lost != nil {
		o.Lost(g.bookLost)
	}
	g.probes.start()
	if kept := g.durability(); len(g.tools) > 0 && g.relaxed() == 1 && !g.storeAway() {
		g.log.Warn("after a crash of the store a write may run a second time: it does not keep what it acknowledges", zap.String("durability", kept))
	}
	return g, nil
}

func setDefaults(o *Options) {
	for i := range o.Upstreams {
		o.Upstreams[i].Policy = o.Upstreams[i].Policy.Or(policy.Defaults())
	}
	for i := range o.Tools {
		t := &o.Tools[i]
		t.Policy = t.Policy.Or(policy.Defaults())
		t.Wait = cmp.Or(t.Wait, 30*time.Second)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	o.MaxBody = cmp.Or(o.MaxBody, 32<<20)
	o.Buffered = cmp.Or(o.Buffered, 1<<30)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.Lease = cmp.Or(o.Lease, 15*time.Second)
	o.MaxAnswer = cmp.Or(o.MaxAnswer, 8<<20)
	d := &o.Dedupe
	d.Wait = cmp.Or(d.Wait, 10*time.Minute)
	d.Owed = cmp.Or(d.Owed, 2*time.Minute)
	if d.Linger == nil {
		linger := 10 * time.Second
		d.Linger = &linger
	}
	d.TTL.Chat = cmp.Or(d.TTL.Chat, 5*time.Minute)
	d.TTL.Embeddings = cmp.Or(d.TTL.Embeddings, 3*time.Minute)
	d.TTL.Long = cmp.Or(d.TTL.Long, 10*time.Minute)
	d.TTL.Max = cmp.Or(d.TTL.Max, 7*24*time.Hour)
	d.TTL.ScaleBytes = cmp.Or(d.TTL.ScaleBytes, 10000)
	o.ToolTTL = cmp.Or(o.ToolTTL, 24*time.Hour)
	o.Tombstone = cmp.Or(o.Tombstone, 7*24*time.Hour)
	if d.Headers == nil {
		d.Headers = []string{"Openai-Beta", "Anthropic-Beta", "Anthropic-Version"}
	}
	for i, name := range d.Headers {
		d.Headers[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
}
