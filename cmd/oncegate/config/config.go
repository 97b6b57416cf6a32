// Package config reads oncegate's configuration: a YAML file, ONCEGATE_*
// variables over it, flags over those. Every fault is found in one pass, and
// each one says where it stands and how to mend it.
//
// The structs in this file are the reference: their comments become the
// descriptions of `oncegate config schema` and the tables of
// docs/configuration.md, their tags hold the defaults and the bounds.
package config

import (
	"time"

	"oncegate/prices"
)

// Tags of the fields below:
//
//	yaml     the key
//	default  what an absent key means, written as in YAML; a list's entries have commas between them
//	enum     the only values there are, with commas between them
//	above    a number, duration or size must be more than this
//	min      a number, duration or size must be at least this; of a list, each of its numbers
//	max      a number must be at most this
//	secret   masked by `config print`, and never quoted in a fault
//	url      credentials and query are masked by `config print`
//	partial  a section whose absent keys stay zero: it overrides another one
//	optional a section that `config print` leaves out where nothing in it is set
//
// What has an above and no default is left out by `config print` where it is
// zero: nobody set it, and it could not be read again.

// Config is the whole configuration.
type Config struct {
	// The two listeners.
	Server Server `yaml:"server"`
	// Who may call.
	Auth Auth `yaml:"auth"`
	// Where records are kept.
	Store Store `yaml:"store"`
	// What counts as the same call, and how long its answer is kept.
	Dedupe Dedupe `yaml:"dedupe"`
	// How often, and how patiently, a failed call is tried again. Each provider and each tool may override any part.
	Policy Policy `yaml:"policy"`
	// The upstreams.
	Providers []Provider `yaml:"providers"`
	// The models that clients may name, and where they are served.
	Models []Model `yaml:"models"`
	// The provider that any other /v1/... path is forwarded to, once, never shared or kept. Empty: such a path is a 404.
	Passthrough string `yaml:"passthrough"`
	// HTTP APIs that agents call at /tools/NAME/..., above all those that write: a call with a key runs at most once.
	Tools []Tool `yaml:"tools"`
	// What models cost, by name: as the answer names the model, as the target does, or as clients do. They win over the built-in table, at every provider; what the upstream itself says an answer cost wins over both.
	Prices map[string]Price `yaml:"prices"`
	// How figures are shown.
	Dashboard Dashboard `yaml:"dashboard"`

	places map[string]Place // of what somebody set, by path
}

// Server is the two listeners and their limits.
type Server struct {
	// Address of the data listener. Not loopback and no auth.keys: refused at start, unless auth.open is true.
	Listen string `yaml:"listen" default:"127.0.0.1:8080"`
	// Address of the admin listener: metrics, the report, targets and probes. Not loopback and no auth.admin_token: refused at start.
	AdminListen string `yaml:"admin_listen" default:"127.0.0.1:8081"`
	// The largest request body, decoded. Beyond it: 413.
	MaxBody Size `yaml:"max_body" default:"32MiB" above:"0"`
	// Request bodies held in memory at once. Beyond it: 503 overloaded.
	MaxBuffered Size `yaml:"max_buffered" default:"1GiB" above:"0"`
	// Readiness is down this long before the drain begins, so that load balancers notice first.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" default:"0s" min:"0"`
	// How long a stopping gateway waits for the calls in flight; and how long a starting one waits for another process to leave the store's directory.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"30s" min:"0"`
	// Cross-origin calls from web pages.
	CORS CORS `yaml:"cors"`
	// A comment line goes out on a stream that was silent this long, to keep proxies awake.
	Heartbeat time.Duration `yaml:"heartbeat" default:"15s" above:"0"`
}

// CORS says which web pages may call.
type CORS struct {
	// Origins such as https://chat.example, or "*" for all. Empty: CORS is off.
	Origins []string `yaml:"origins"`
}

// Auth says who may call.
type Auth struct {
	// Guards the admin listener, as a bearer token. Empty: the admin listener must be on loopback.
	AdminToken string `yaml:"admin_token" secret:"true"`
	// Lets anyone call a listener that is not on loopback. They all spend the providers' keys.
	Open bool `yaml:"open"`
	// The gateway's own keys. Empty: anyone on this machine may call.
	Keys []Key `yaml:"keys"`
}

// Key is one gateway key: a client, a team.
type Key struct {
	// How it is called in logs and records.
	Name string `yaml:"name"`
	// sha256: and 64 hex digits, the SHA-256 of the key, as `oncegate key new NAME` prints it.
	Hash string `yaml:"hash"`
	// The models it may use: names, gpt-4* for all that begin so, "*" for all.
	Models []string `yaml:"models" default:"*"`
	// The tools it may use: names, pay* for all that begin so, "*" for all, [] for none.
	Tools []string `yaml:"tools" default:"*"`
	// What this key's calls without an Idempotency-Key may share, in place of dedupe.mode.
	Dedupe string `yaml:"dedupe" enum:"off,retries,duplicates,always"`
}

// Store says where records are kept.
type Store struct {
	// local: and a directory, made at first start, for one node; a relative one is under the working directory. For several nodes on one Redis: redis://, rediss:// (TLS), redis+sentinel://, redis+cluster://, as redis://user:password@host:6379/0.
	URL string `yaml:"url" default:"local:./data" url:"true"`
	// What all record keys are derived from, 16 bytes or more. Empty: made at first start and kept in the store.
	Secret string `yaml:"secret" secret:"true"`
	// How long a call that nobody renews stays its leader's; renewed at a third of it.
	Lease time.Duration `yaml:"lease" default:"15s" above:"0"`
	// The largest answer that is kept. A larger one still reaches its readers.
	MaxBody Size `yaml:"max_body" default:"8MiB" above:"0"`
	// How many of Redis' replicas must have a write's dispatch before it is sent, and its end before it is recorded, so that a failover forgets neither. While fewer do, writes are refused. Zero: what one Redis acknowledges is enough. Not for a local store.
	Replicas int `yaml:"replicas" default:"0" min:"0"`
	// What becomes of calls while the store is away.
	OnOutage OnOutage `yaml:"on_outage"`
}

// OnOutage says what becomes of calls while the store is away.
type OnOutage struct {
	// run: completions run without protection, so that a call asked for twice may run twice. refuse: they get a 503, and /readyz is down.
	Completions string `yaml:"completions" default:"run" enum:"run,refuse"`
	// refuse: writes of tools get a 503. There is no other: without the store nobody knows whether a write ran before.
	Writes string `yaml:"writes" default:"refuse" enum:"refuse"`
}

// Dedupe says what counts as the same call.
type Dedupe struct {
	// What calls without an Idempotency-Key may share. off: nothing. retries: a retry joins or replays the call it repeats. duplicates: and concurrent duplicates share one call. always: and every duplicate within the TTL replays. Images and speech share retries at most, unless the request, its key or its model says otherwise.
	Mode string `yaml:"mode" default:"duplicates" enum:"off,retries,duplicates,always"`
	// The longest a duplicate waits for the first byte of the call in flight before it gets a 409.
	Wait time.Duration `yaml:"wait" default:"10m" above:"0"`
	// How long an answer that did not reach its client waits for the unmarked retry.
	Owed time.Duration `yaml:"owed" default:"2m" above:"0"`
	// How long finished answers are kept.
	TTL TTL `yaml:"ttl"`
	// An abandoned stream goes on this long for a retry to attach, then its upstream is let go.
	Linger time.Duration `yaml:"linger" default:"10s" min:"0"`
	// JSON pointers left out of derived keys, such as /metadata/trace_id.
	Ignore []string `yaml:"ignore"`
	// Request headers that enter derived keys.
	Headers []string `yaml:"headers" default:"openai-beta,anthropic-beta,anthropic-version"`
}

// TTL is the retention of finished answers: base x max(1, floor(input bytes /
// scale_bytes)), capped by max. It starts when the record settles.
type TTL struct {
	// The base of all operations but embeddings and tools.
	Chat time.Duration `yaml:"chat" default:"5m" above:"0"`
	// The base of embeddings.
	Embeddings time.Duration `yaml:"embeddings" default:"3m" above:"0"`
	// The base of inputs over 10 x scale_bytes.
	Long time.Duration `yaml:"long" default:"10m" above:"0"`
	// How long the answer of a tool's write is kept and replayed. Whoever asks later gets a 410.
	Tool time.Duration `yaml:"tool" default:"24h" above:"0"`
	// How long it is remembered that a key of a write was used, its answer kept or not, so that it runs no second time; tool, where that is longer. After it such a key is new again, but for a UUIDv7 that is older: that gets a 412.
	Tombstone time.Duration `yaml:"tombstone" default:"7d" above:"0"`
	// The cap of them all but tombstone, and of the Oncegate-TTL header.
	Max time.Duration `yaml:"max" default:"7d" above:"0"`
	// An input of n times this many bytes is kept n times as long.
	ScaleBytes int `yaml:"scale_bytes" default:"10000" above:"0"`
}

// Dashboard says how figures are shown.
type Dashboard struct {
	// The time zone in which the ledger's days begin, by its IANA name, as Europe/Berlin. Days that were booked keep the one they began in.
	Timezone string `yaml:"timezone" default:"UTC"`
}

// Zone is the zone of Timezone.
func (d Dashboard) Zone() *time.Location {
	zone, err := time.LoadLocation(d.Timezone)
	if err != nil {
		return time.UTC // check has said so
	}
	return zone
}

// Policy says how a failed call is tried again.
type Policy struct {
	// Attempts a target, the first included. 3: most faults that pass by themselves are over by the third, and more only multiplies the load on one that is not.
	Attempts int `yaml:"attempts" default:"3" above:"0"`
	// Attempts over all targets of a call. 5: a second target gets its tries, and a long list is not walked to its end.
	TotalAttempts int `yaml:"total_attempts" default:"5" above:"0"`
	// Full jitter: the n-th retry waits a random time below min(cap, base x 2^(n-1)). Of the known ways to wait it makes the fewest calls where many callers failed at once.
	Backoff Backoff `yaml:"backoff"`
	// A longer Retry-After is passed on to the client, not slept out: a minute is what limits a minute need, and what clients wait.
	RetryAfterCap time.Duration `yaml:"retry_after_cap" default:"60s" above:"0"`
	// Bounds the retries that go to a target by the calls that go there, so that they can't make an outage worse.
	Budget Budget `yaml:"budget"`
	// Stops calls to a target that fails, until a few probes succeed.
	Breaker Breaker `yaml:"breaker"`
	// Bounds the attempts that are under way on a target at once. As many more wait for their turn, at most 5 s and a tenth of the time they have left; beyond that 503 overloaded. Turns go to whichever principal has least under way: none gets more than half of them while others wait.
	Concurrency Concurrency `yaml:"concurrency"`
	// The limits of one attempt, and of the call.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Budget bounds a target's retries. A fallback is no retry of its target, and
// one retry of a request that was never sent costs nothing.
type Budget struct {
	// Retries for each first attempt, over ten seconds; and a fifth of that in any one second, so that ten quiet seconds save up no burst. A tenth: in a total outage the upstream sees 1.1 times the calls, at its worst second 1.2 times, and errors of a tenth of the calls are still all retried.
	Ratio float64 `yaml:"ratio" default:"0.1" above:"0"`
	// Retries a second that are always allowed: ten times this in ten seconds, twice in one. 10, so that a handful of callers can retry at all: with 1, five callers at 30% errors did worse than an SDK alone (79% answered against 97%).
	Floor float64 `yaml:"floor" default:"10" above:"0"`
}

// Breaker stops calls to a target that fails. 429 is no failure to it, nor is
// any other 4xx but 408.
type Breaker struct {
	// false: calls go to a failing target, and each one finds out by itself.
	Enabled Toggle `yaml:"enabled" default:"true"`
	// Opens on so many failures in a row. 20: at 1,000 calls a second that is 20 ms, and an upstream that fails one call in three does it once in three billion.
	Consecutive int `yaml:"consecutive" default:"20" above:"0"`
	// Opens on a shorter streak, if it lasts: twenty calls may take minutes.
	LowTraffic LowTraffic `yaml:"low_traffic"`
	// Opens when this share of the calls in window failed. Half: failures that never come in a row, as from one of two machines that is down. By itself it would open 4 to 5 s late, for the window is full of successes.
	FailureRate float64 `yaml:"failure_rate" default:"0.5" above:"0" max:"1"`
	// With fewer calls than this in window their share of failures says nothing.
	MinCalls int `yaml:"min_calls" default:"20" above:"0"`
	// What failure_rate looks back on.
	Window time.Duration `yaml:"window" default:"10s" above:"0"`
	// How long it stays open at first, times a random 0.8 to 1.2 so that many gateways don't come back in step. Short, for most outages are; doubled each time a probe fails.
	Cooldown time.Duration `yaml:"cooldown" default:"1s" above:"0"`
	// It stays open no longer than this, times as much, unless the upstream names a longer time: what an outage's end may be noticed late by.
	CooldownCap time.Duration `yaml:"cooldown_cap" default:"15s" above:"0"`
	// Then so many calls may be in flight at once, and as many that succeed in a row close it. More than one, for a single call may be slow or odd; few, for they are real calls.
	Probes int `yaml:"probes" default:"3" above:"0"`
}

// LowTraffic is the streak that counts where calls are few.
type LowTraffic struct {
	// Failures in a row: fewer would take one client's bad luck for an outage.
	Consecutive int `yaml:"consecutive" default:"5" above:"0"`
	// The least time from the first of them to the last: at one blow they may be one fault, such as a connection that broke.
	Over time.Duration `yaml:"over" default:"2s" min:"0"`
}

// Concurrency is a limit that gives way by a tenth a second while the upstream
// answers 429, 503 or 529, or not in time, and comes back by a tenth a second
// while half of it is used.
type Concurrency struct {
	// Where it begins. Wide open: calls last from seconds to minutes, and a limit that had to find its size from below would starve them.
	Start int `yaml:"start" default:"4096" above:"0"`
	// It gives way no further, so that enough calls go on to notice when the upstream is well again.
	Min int `yaml:"min" default:"16" above:"0"`
	// It comes back no further; start and min count as this at most. What one process can hold open to one upstream; lower it for one that bears less, such as a model on your own machine.
	Max int `yaml:"max" default:"4096" above:"0"`
}

// Backoff is the ceiling of the waits between attempts.
type Backoff struct {
	// The first ceiling. Half a second: a restarted or failed-over server is back by the second try, and a client hardly notices the first.
	Base time.Duration `yaml:"base" default:"500ms" above:"0"`
	// The first ceiling after a 429, a 529 or an error of their kind. Longer, for a limit takes its time to refill.
	ThrottleBase time.Duration `yaml:"throttle_base" default:"1s" above:"0"`
	// No ceiling is higher: beyond it a client has long given up.
	Cap time.Duration `yaml:"cap" default:"30s" above:"0"`
}

// Timeouts bound one attempt, but for total, which bounds the call.
type Timeouts struct {
	// DNS, dial and TLS. 5s holds a lost packet and its repeat; a dial that fails costs nothing to try again.
	Connect time.Duration `yaml:"connect" default:"5s" above:"0"`
	// From the request written to the first byte of a stream. Two minutes, for models think before they speak. A non-streamed completion has until total: one slow call costs less than two billed ones.
	FirstByte time.Duration `yaml:"first_byte" default:"120s" above:"0"`
	// Between two bytes of an answer. Long, for what stalls may have been billed; comments and pings count as life.
	Idle time.Duration `yaml:"idle" default:"5m" above:"0"`
	// The whole call, all attempts and waits. 10m is what the SDKs themselves wait.
	Total time.Duration `yaml:"total" default:"10m" above:"0"`
}

// Provider is one upstream.
type Provider struct {
	// How models refer to it. Letters, digits, dots, dashes and underscores.
	Name string `yaml:"name"`
	// openai: anything that speaks OpenAI's API. anthropic: Anthropic's. mock: the scripted upstream that is built in.
	Kind string `yaml:"kind" enum:"openai,anthropic,mock"`
	// http or https. Without a path /v1 is added; a query goes with every call. Not for mock.
	BaseURL string `yaml:"base_url" url:"true"`
	// Its API keys: several are rotated on 429, and a dead one is put on hold. Empty: no credential is sent. An entry written "${NAME:-}" is left out when NAME is unset.
	APIKeys []string `yaml:"api_keys" secret:"true"`
	// Whether chat and completion streams are sent with stream_options.include_usage, so that their tokens can be counted.
	StreamUsage string `yaml:"stream_usage" default:"ask" enum:"ask,leave"`
	// Any part of policy, for this provider.
	Policy Policy `yaml:"policy" partial:"true"`
}

// Model is a name that clients use, and where it is served.
type Model struct {
	// The name, or "*" for any other model, by its own name.
	Name string `yaml:"name"`
	// The first is chosen by weight, the others follow in this order when it fails.
	Targets []Target `yaml:"targets"`
	// What this model's calls without an Idempotency-Key may share, in place of dedupe.mode.
	Dedupe string `yaml:"dedupe" enum:"off,retries,duplicates,always"`
}

// Target is one model at one provider.
type Target struct {
	// The name of a provider.
	Provider string `yaml:"provider"`
	// What the model is called there. Empty: as the client named it.
	Model string `yaml:"model"`
	// Its share of first attempts. Zero: as a fallback only.
	Weight int `yaml:"weight" default:"1" min:"0"`
	// Its window, in tokens. An input that is too long for one target is tried on those that have a larger one. Zero: unknown, and so neither.
	Context int `yaml:"context" default:"0" min:"0"`
}

// Price is what one model costs, in US dollars a million tokens. Zero is free;
// what is left out is not.
type Price struct {
	// All input that none of the others says more of.
	Input prices.Rate `yaml:"input"`
	// All output, reasoning included. Left out: answers with output are unpriced.
	Output prices.Rate `yaml:"output"`
	// Input that was read from the provider's prompt cache. Left out: as input.
	CachedInput prices.Rate `yaml:"cached_input"`
	// Input that was written to the provider's prompt cache for five minutes, or for no stated time. Left out: as input.
	CacheWrite5m prices.Rate `yaml:"cache_write_5m"`
	// Input that was written to it for an hour. Left out: as input, but beside a cache_write_5m such answers are unpriced.
	CacheWrite1h prices.Rate `yaml:"cache_write_1h"`
}

// Tool is one HTTP API that clients reach at /tools/NAME/...
type Tool struct {
	// How clients name it, at /tools/NAME/. Letters, digits, dots, dashes and underscores.
	Name string `yaml:"name"`
	// http or https. What follows /tools/NAME in a call is appended to its path; its query goes with every call. mock: the write API of the scripted upstream that is built in.
	BaseURL string `yaml:"base_url" url:"true"`
	// Headers of every call to it, such as its credential; they replace the client's. A value written "${NAME:-}" is left out when NAME is unset.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// Whether a write needs a key, by Idempotency-Key, key_from or key_fields. required: one without gets a 400. optional: it is sent once, and nothing is replayed.
	Key string `yaml:"key" default:"optional" enum:"optional,required"`
	// Where a JSON body has the key, for clients that can set no header: JSON pointers, as /idempotency_key. The first that points at something but null counts, and must be a text; an Idempotency-Key wins over them.
	KeyFrom []string `yaml:"key_from"`
	// The fields of a JSON body that mean the operation, as /order_id, for agents that plan anew and mint new ids: JSON pointers. Two writes to one path with the same values of all of them are one, whatever else differs. A body that lacks one, or has null there, has no key by them; an Idempotency-Key and key_from win over them. Needs window.
	KeyFields []string `yaml:"key_fields"`
	// How long after the first one settled a write with the same key_fields is the same. An unknown outcome outlasts it. At most what the store remembers: the longer of dedupe.ttl.tool and dedupe.ttl.tombstone.
	Window time.Duration `yaml:"window" above:"0"`
	// The header in which this API takes idempotency keys. It gets one of the gateway's own, the same on every attempt: then a write whose answer was lost is sent again. Leave it out where the API knows no keys.
	UpstreamKeyHeader string `yaml:"upstream_key_header"`
	// How long this API surely remembers a key; after it nothing is sent again. Left out beside upstream_key_header: 30m, for among well-known APIs some remember an hour only. Say less than the API's documentation does: 23h for a day.
	UpstreamKeyWindow time.Duration `yaml:"upstream_key_window" above:"0"`
	// Statuses, 400 to 599, that this API only sends before it did anything, as 503: then a write is tried again.
	NotExecuted []int `yaml:"not_executed" min:"400" max:"599"`
	// How to ask this API whether a write of unknown outcome happened.
	Probe Probe `yaml:"probe" optional:"true"`
	// Calls that only read although their method writes, as "POST /search": retried, never kept or shared. {any} stands for one segment of the path, /* at the end for all below.
	Reads []string `yaml:"reads"`
	// Response headers that replays have, too, beside Content-Type, Content-Language, Content-Disposition, Location, ETag, Last-Modified, Link, Vary and Cache-Control.
	ReplayHeaders []string `yaml:"replay_headers"`
	// The longest that a duplicate waits for the write in flight before it gets a 409.
	Wait time.Duration `yaml:"wait" default:"30s" above:"0"`
	// Any part of policy, for this tool.
	Policy Policy `yaml:"policy" partial:"true"`
}

// Probe asks whether a write of unknown outcome happened.
type Probe struct {
	// The path, and query, of a GET under base_url, as /v1/payments?ref={/ref}. {/pointer} stands for a value of the write's JSON body, {upstream_key} for the key that the API got by upstream_key_header.
	Get string `yaml:"get"`
	// The JSON pointer of what only an answer about a write that happened has, as /data/0 or /id: anything there but null, false and what is empty.
	Executed string `yaml:"executed"`
	// How long after the outcome became unknown, and its last attempt was over (one of another process is timeouts.total after its claim), a 404, or an answer without executed, means that it did not happen, and its key may be used again. 0: it never does, for the write may still be in a queue.
	AbsentAfter time.Duration `yaml:"absent_after" default:"0s" min:"0"`
}
