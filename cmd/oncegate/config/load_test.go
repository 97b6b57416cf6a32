package config

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/prices"
)

// small is the least that is a configuration.
const small = `
providers: [{name: mock, kind: mock}]
models: [{name: "*", targets: [{provider: mock}]}]
`

func load(text string, env ...string) (*Config, error) {
	return Load(Source{File: "config.yaml", Data: []byte(text), Env: env})
}

func mustLoad(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := load(text, env...)
	if err != nil {
		t.Fatalf("faults in a good configuration:\n%v", err)
	}
	return c
}

func TestFiveFaultsAllAtOnce(t *testing.T) {
	_, err := Load(Source{File: "testdata/five.yaml"})
	want := strings.Join([]string{
		`testdata/five.yaml:2: server.lisen: unknown key; did you mean listen?`,
		`testdata/five.yaml:4: dedupe.ttl.chat: "0s" must be more than 0; leave it out for the default of 5m`,
		`testdata/five.yaml:7: providers[0].kind: "gemini" comes later: this version does not speak to it; use one of openai, anthropic, mock`,
		`testdata/five.yaml:9: providers[0].api_keys[0]: the environment has no NOPE; set it, or write ${NOPE:-VALUE} for what stands in when it is not set`,
		`testdata/five.yaml:13: models[0].targets[0].provider: "mian" is not a provider; did you mean main?`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if faults, ok := errors.AsType[Faults](err); !ok || len(faults) != 5 {
		t.Errorf("the error is %T, want five Faults", err)
	}
}

// Each row is one fault: what the line says, and the mend.
func TestFaults(t *testing.T) {
	hash := "sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct{ name, text, want string }{
		{"no file content", "", "config.yaml:1: providers: there are none; add one"},
		{"not YAML", "server: [\n", "is not YAML"},
		{"a list at the top", "- 1\n", "config.yaml:1: is not a section; indent keys"},
		{"two documents", small + "---\n" + small, "a second YAML document"},
		{"twice", small + "passthrough: mock\npassthrough: mock\n", "config.yaml:5: passthrough: stands twice, first in line 4; keep one"},
		{"unknown, none near", small + "frobnicate: 1\n", "frobnicate: unknown key; known are server, auth"},
		{"section as a value", small + "server: 5\n", "config.yaml:4: server: is not a section"},
		{"value as a section", small + "passthrough: {a: b}\n", "config.yaml:4: passthrough: is a list or a section"},
		{"not a list", "models: x\nproviders: [{name: mock, kind: mock}]\n", "config.yaml:1: models: is not a list"},
		{"merge key", small + "server: {<<: {listen: x}}\n", "merge keys are not read"},
		{"tag", small + "passthrough: !!str mock\n", "YAML tags are not read"},
		{"unknown alias", small + "passthrough: *nope\n", "no anchor &nope"},
		{"bare number as a duration", small + "dedupe: {owed: 30}\n", `dedupe.owed: "30" is not a duration; write it with units`},
		{"TTL zero", small + "dedupe: {ttl: {embeddings: 0}}\n", `dedupe.ttl.embeddings: "0" must be more than 0`},
		{"TTL negative", small + "dedupe: {ttl: {max: -1d}}\n", `dedupe.ttl.max: "-1d" must be more than 0`},
		{"size", small + "server: {max_body: lots}\n", `server.max_body: "lots" is not a size; write it as`},
		{"bool", small + "auth: {open: maybe}\n", `auth.open: "maybe" is neither true nor false`},
		{"mode", small + "dedupe: {mode: duplicate}\n", `dedupe.mode: "duplicate" is not one of off, retries, duplicates, always; did you mean duplicates?`},
		{"attempts", small + "policy: {attempts: 0}\n", `policy.attempts: "0" must be more than 0`},
		{"attempts, text", small + "policy: {attempts: three}\n", "is not a whole number"},
		{"open to all", small + "server: {listen: ':8080'}\n", `server.listen: ":8080" is not loopback, and there are no auth.keys; add a key`},
		{"admin open to all", small + "server: {admin_listen: '0.0.0.0:8081'}\n", "there is no auth.admin_token; set a token"},
		{"address", small + "server: {listen: nowhere}\n", `"nowhere" is not an address`},
		{"one address for both", small + "server: {admin_listen: '127.0.0.1:8080'}\n", "is the same address as server.listen"},
		{"open with keys", small + "auth: {open: true, keys: [{name: a, hash: '" + hash + "'}]}\n", "auth.open: lets everyone in"},
		{"hash missing", small + "auth: {keys: [{name: a}]}\n", "config.yaml:4: auth.keys[0].hash: is missing; put the hash that `oncegate key new a` prints"},
		{"hash is a key", small + "auth: {keys: [{name: a, hash: ogk_x}]}\n", "is not sha256: and 64 hex digits"},
		{"same hash", small + "auth: {keys: [{name: a, hash: '" + hash + "'}, {name: b, hash: '" + strings.ToUpper(hash[7:]) + "'}]}\n", "auth.keys[1].hash: is not sha256:"},
		{"same hash twice", small + "auth: {keys: [{name: a, hash: '" + hash + "'}, {name: b, hash: '" + hash + "'}]}\n", "is the hash of auth.keys[0], too"},
		{"same key name", small + "auth: {keys: [{name: a, hash: '" + hash + "'}, {name: a, hash: '" + hash[:70] + "b'}]}\n", `"a" is the name of auth.keys[0], too`},
		{"key's model", "providers: [{name: mock, kind: mock}]\nmodels: [{name: gpt-4.1, targets: [{provider: mock}]}]\nauth: {keys: [{name: a, hash: '" + hash + "', models: [gpt-4.2]}]}\n", "did you mean gpt-4.1?"},
		{"key's models, none", small + "auth: {keys: [{name: a, hash: '" + hash + "', models: []}]}\n", "auth.keys[0].models: lists none; leave it out"},
		{"key's tool, of none", small + "auth: {keys: [{name: a, hash: '" + hash + "', tools: [bank]}]}\n", `config.yaml:4: auth.keys[0].tools[0]: "bank" is not a tool; known are *`},
		{"key's tool", small + "tools: [{name: payments, base_url: mock}]\nauth: {keys: [{name: a, hash: '" + hash + "', tools: ['pay*', '*', payment]}]}\n", `config.yaml:5: auth.keys[0].tools[2]: "payment" is not a tool; did you mean payments?`},
		{"key's tools, none so", small + "tools: [{name: payments, base_url: mock}]\nauth: {keys: [{name: a, hash: '" + hash + "', tools: ['mail*']}]}\n", `auth.keys[0].tools[0]: "mail*" is not a tool; known are payments, *`},
		{"key's tools, a pattern", small + "auth: {keys: [{name: a, hash: '" + hash + "', tools: ['*pay']}]}\n", `"*pay" has a * that is not at its end`},
		{"redis", small + "store: {url: 'redis://user:hunter2@h:port'}\n", "store.url: the store's URL has a host or port that can't be read"},
		{"store", small + "store: {url: './data'}\n", "store.url: is not a store"},
		{"store secret", small + "store: {secret: short}\n", "store.secret: is shorter than 16 bytes"},
		{"replicas", small + "store: {replicas: 1}\n", "config.yaml:4: store.replicas: is for Redis, and a local store has no replicas; leave it out"},
		{"fewer than no replicas", small + "store: {url: 'redis://h:6379', replicas: -1}\n", `store.replicas: "-1" must be at least 0; leave it out for the default of 0`},
		{"on_outage", small + "store: {on_outage: {completions: stop}}\n", "store.on_outage.completions: "},
		{"port", small + "server: {listen: '0.0.0.0:80800'}\n", `server.listen: "0.0.0.0:80800" has no port that there is; write one from 0 to 65535`},
		{"on_outage of writes", small + "store: {on_outage: {writes: run}}\n", `store.on_outage.writes: "run" is not one of refuse; write one of these`},
		{"tools' TTL", small + "dedupe: {ttl: {tool: 0}}\n", `dedupe.ttl.tool: "0" must be more than 0; leave it out for the default of 24h`},
		{"tools' TTL over its cap", small + "dedupe: {ttl: {max: 2h, tool: 3h}}\n", "config.yaml:4: dedupe.ttl.tool: is more than dedupe.ttl.max, which caps it; make it shorter, or max longer"},
		{"no tombstone", small + "dedupe: {ttl: {tombstone: 0s}}\n", `dedupe.ttl.tombstone: "0s" must be more than 0; leave it out for the default of 7d`},
		{"dashboard", small + "dashboard: {show_bodies: true}\n", "dashboard.show_bodies: not in this version yet"},
		{"time zone", small + "dashboard: {timezone: Europe/Berlyn}\n", `dashboard.timezone: "Europe/Berlyn" is no time zone`},
		{"time zone of the machine", small + "dashboard: {timezone: Local}\n", `dashboard.timezone: "Local" is no time zone`},
		{"prices, no section", small + "prices: 5\n", "config.yaml:4: prices: is not a section; indent names under it, each with input, output, cached_input, cache_write_5m, cache_write_1h"},
		{"a price, no section", small + "prices: {gpt-4.1: 2}\n", "config.yaml:4: prices.gpt-4.1: is not a section"},
		{"a price of nothing", small + "prices:\n  gpt-4.1: {output: 8}\n", "config.yaml:5: prices.gpt-4.1.input: is missing; write US dollars a million tokens, as 0.42; 0 where it is free"},
		{"a price of null", small + "prices:\n  gpt-4.1:\n", "config.yaml:5: prices.gpt-4.1.input: is missing"},
		{"a price, unknown part", small + "prices:\n  gpt-4.1: {input: 2, cached: 1}\n", "prices.gpt-4.1.cached: unknown key; known are input, output, cached_input"},
		{"a negative price", small + "prices:\n  gpt-4.1: {input: -2}\n", `prices.gpt-4.1.input: "-2" is not a price: a number from 0 to 1000000; write US dollars a million tokens, as 0.42`},
		{"a price in words", small + "prices:\n  gpt-4.1: {input: 2, output: $$8}\n", `prices.gpt-4.1.output: "$$8" is not a price`},
		{"a huge price", small + "prices: {m: {input: 1e7}}\n", `prices.m.input: "1e7" is not a price`},
		{"an endless price", small + "prices: {m: {input: .inf}}\n", `prices.m.input: ".inf" is not a price`},
		{"a price twice", small + "prices:\n  m: {input: 1}\n  m: {input: 2}\n", "config.yaml:6: prices.m: stands twice, first in line 5; keep one of them"},
		{"prices merged", small + "prices: {<<: {m: {input: 1}}}\n", "prices.<<: merge keys are not read"},
		{"a price of a name that none is", small + "prices: {'a b': {input: 1}}\n", `prices.a b: "a b" is not a model's name`},
		{"a price for all", small + "prices: {'*': {input: 1}}\n", "prices.*: is no model, and there is no price for all; name each model"},
		{"an audio price", small + "prices: {m: {input: 1, searches: 1}}\n", "prices.m.searches: unknown key"},
		{"breaker", small + "policy: {breaker: {enabled: perhaps}}\n", `policy.breaker.enabled: "perhaps" is neither true nor false`},
		{"failure rate", small + "policy: {breaker: {failure_rate: 1.5}}\n", `policy.breaker.failure_rate: "1.5" must be at most 1`},
		{"no budget", small + "policy: {budget: {ratio: 0}}\n", `policy.budget.ratio: "0" must be more than 0`},
		{"an exponent", small + "policy: {budget: {floor: 1e3}}\n", `policy.budget.floor: "1e3" is not a number`},
		{"a provider's budget", "providers: [{name: mock, kind: mock, policy: {budget: {flor: 1}}}]\nmodels: [{name: '*', targets: [{provider: mock}]}]\n", "providers[0].policy.budget.flor: unknown key; did you mean floor?"},
		{"context", "providers: [{name: mock, kind: mock}]\nmodels: [{name: '*', targets: [{provider: mock, context: -1}]}]\n", `models[0].targets[0].context: "-1" must be at least 0`},
		{"pointer", small + "dedupe: {ignore: [metadata]}\n", "is not a JSON pointer"},
		{"header", small + "dedupe: {headers: ['a b']}\n", "is not a header name"},
		{"cors", small + "server: {cors: {origins: ['https://a.example/path']}}\n", "is not an origin"},
		{"cors for all", small + "server: {cors: {origins: ['*']}}\n", "any web page could spend"},
		{"kind", "providers: [{name: p, kind: opneai, base_url: 'http://h'}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "did you mean openai?"},
		{"kind missing", "providers: [{name: p, base_url: 'http://h'}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "providers[0].kind: is missing"},
		{"bedrock", "providers: [{name: p, kind: bedrock, base_url: 'http://h'}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", `"bedrock" comes later`},
		{"azure", "providers: [{name: p, kind: azure, base_url: 'http://h'}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", `"azure" comes later`},
		{"base_url missing", "providers: [{name: p, kind: openai}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "providers[0].base_url: is missing; write it as https://api.openai.com/v1"},
		{"base_url relative", "providers: [{name: p, kind: openai, base_url: llm.example}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "is not an absolute http or https URL"},
		{"base_url of a mock", "providers: [{name: p, kind: mock, base_url: 'http://h'}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "is nothing to a mock"},
		{"provider's name", "providers: [{name: a/b, kind: mock}]\nmodels: [{name: m, targets: [{provider: a/b}]}]\n", `"a/b" is not a name`},
		{"providers of one name", "providers: [{name: p, kind: mock}, {name: p, kind: mock}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", `providers[1].name: "p" is the name of providers[0], too`},
		{"empty API key", "providers: [{name: p, kind: openai, base_url: 'http://h', api_keys: ['']}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "api_keys[0]: is empty"},
		{"API key of two lines", "providers: [{name: p, kind: openai, base_url: 'http://h', api_keys: [\"a\\nb\"]}]\nmodels: [{name: m, targets: [{provider: p}]}]\n", "api_keys[0]: holds a control character"},
		{"models none", "providers: [{name: p, kind: mock}]\n", "models: there are none; add one, as `- {name: \"*\", targets: [{provider: p}]}`"},
		{"models of one name", small + "x: 1\n", "x: unknown key"},
		{"pattern", "providers: [{name: p, kind: mock}]\nmodels: [{name: gpt-*, targets: [{provider: p}]}]\n", "is a pattern"},
		{"no targets", "providers: [{name: p, kind: mock}]\nmodels: [{name: m}]\n", "models[0].targets: there are none"},
		{"weight", "providers: [{name: p, kind: mock}]\nmodels: [{name: m, targets: [{provider: p, weight: -1}]}]\n", `weight: "-1" must be at least 0`},
		{"all weights 0", "providers: [{name: p, kind: mock}]\nmodels: [{name: m, targets: [{provider: p, weight: 0}]}]\n", "all have weight 0"},
		{"target twice", "providers: [{name: p, kind: mock}]\nmodels: [{name: m, targets: [{provider: p}, {provider: p}]}]\n", "targets[1]: is the same as targets[0]"},
		{"passthrough", small + "passthrough: nobody\n", `passthrough: "nobody" is not a provider; known are mock`},
		{"lone dollar", small + "passthrough: $mock\n", "passthrough: has a lone $; write $$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(c.text)
			faults, ok := errors.AsType[Faults](err)
			if !ok || len(faults) != 1 {
				t.Fatalf("want one fault, got %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if faults[0].Mend == "" {
				t.Errorf("no mend: %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a password in %v", err)
			}
		})
	}
}

// The prices of the contract's own example, and as much as a file can say.
func TestPrices(t *testing.T) {
	c := mustLoad(t, small+`
prices:
  deepseek-v3.2: {input: 0.42, output: 0.42, cached_input: 0.04}
  meta-llama/Llama-3.3: {input: "${LLAMA}", output: 1.5e-3, cache_write_5m: 3.75, cache_write_1h: 6}
  free: {input: 0, output: 0}
  embed: {input: 0.02}
`, "LLAMA=0.000000000001\n")
	rate := func(text string) prices.Rate {
		r, err := prices.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := map[string]Price{
		"deepseek-v3.2":        {Input: rate("0.42"), Output: rate("0.42"), CachedInput: rate("0.04")},
		"meta-llama/Llama-3.3": {Input: prices.Per(1), Output: rate("0.0015"), CacheWrite5m: rate("3.75"), CacheWrite1h: rate("6")},
		"free":                 {Input: prices.Per(0), Output: prices.Per(0)},
		"embed":                {Input: rate("0.02")},
	}
	if !maps.Equal(c.Prices, want) {
		t.Errorf("%+v\nwant %+v", c.Prices, want)
	}
	u := prices.Usage{Known: true, Input: 3_000_000, Cached: 1_000_000, CacheWrite5m: 1_000_000, CacheWrite1h: 1_000_000, Output: 1_000_000}
	for name, want := range map[string]string{"deepseek-v3.2": "1.3", "meta-llama/Llama-3.3": "9.751500000001", "free": "0"} {
		if cost := c.Book().At("").Price(prices.Names{Client: name}).Cost(&u, time.Now()); cost.Pico.String() != want || !cost.Priced() {
			t.Errorf("%s: %+v, want %s", name, cost, want)
		}
	}
	if c := mustLoad(t, small+"prices:\n"); len(c.Prices) != 0 {
		t.Errorf("prices of nothing: %+v", c.Prices)
	}
}

func TestDefaultsAreTheContracts(t *testing.T) {
	c := mustLoad(t, small)
	if c.Server.Listen != "127.0.0.1:8080" || c.Server.AdminListen != "127.0.0.1:8081" ||
		c.Server.MaxBody != 32<<20 || c.Server.MaxBuffered != 1<<30 || c.Server.ShutdownGrace != 30*time.Second ||
		c.Server.ShutdownDelay != 0 || c.Server.Heartbeat != 15*time.Second {
		t.Errorf("server: %+v", c.Server)
	}
	if c.Store.URL != "local:./data" || c.Store.Lease != 15*time.Second || c.Store.MaxBody != 8<<20 || c.Store.Replicas != 0 || c.Store.OnOutage != (OnOutage{Completions: "run", Writes: "refuse"}) || c.Store.Directory() != "./data" {
		t.Errorf("store: %+v", c.Store)
	}
	d := c.Dedupe
	if d.Mode != "duplicates" || d.Wait != 10*time.Minute || d.Owed != 2*time.Minute || d.Linger != 10*time.Second ||
		d.TTL != (TTL{Chat: 5 * time.Minute, Embeddings: 3 * time.Minute, Long: 10 * time.Minute, Tool: 24 * time.Hour, Tombstone: 168 * time.Hour, Max: 168 * time.Hour, ScaleBytes: 10000}) ||
		strings.Join(d.Headers, " ") != "openai-beta anthropic-beta anthropic-version" {
		t.Errorf("dedupe: %+v", d)
	}
	if got, want := c.PolicyOf(c.Providers[0]), (policy.Config{
		Attempts: 3, TotalAttempts: 5, RetryAfterCap: time.Minute,
		Backoff: policy.Backoff{Base: 500 * time.Millisecond, ThrottleBase: time.Second, Cap: 30 * time.Second},
		Budget:  policy.Budget{Ratio: 0.1, Floor: 10},
		Breaker: policy.Breaker{
			Switch: policy.On, Consecutive: 20, LowTraffic: policy.LowTraffic{Consecutive: 5, Over: 2 * time.Second}, FailureRate: 0.5,
			MinCalls: 20, Window: 10 * time.Second, Cooldown: time.Second, CooldownCap: 15 * time.Second, Probes: 3,
		},
		Concurrency: policy.Concurrency{Start: 4096, Min: 16, Max: 4096},
		Timeouts:    policy.Timeouts{Connect: 5 * time.Second, FirstByte: 2 * time.Minute, Idle: 5 * time.Minute, Total: 10 * time.Minute},
	}); got != want {
		t.Errorf("policy: %+v, want %+v", got, want)
	}
	if c.Models[0].Targets[0].Weight != 1 || c.Providers[0].StreamUsage != "ask" {
		t.Errorf("entries: %+v %+v", c.Models, c.Providers)
	}
}

func TestNoFileServesTheMock(t *testing.T) {
	c, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Providers) != 1 || c.Providers[0].Kind != "mock" || len(c.Models) != 1 || c.Models[0].Name != "*" {
		t.Errorf("%+v %+v", c.Providers, c.Models)
	}
	if len(c.Tools) != 1 || c.Tools[0].Name != "payments" || c.Tools[0].BaseURL != MockTool || c.Tools[0].Key != "optional" || c.Tools[0].Wait != 30*time.Second {
		t.Errorf("%+v", c.Tools)
	}
}

func TestProvidersOverridePartsOfThePolicy(t *testing.T) {
	c := mustLoad(t, `
policy: {attempts: 4, backoff: {cap: 10s}, breaker: {probes: 2}}
providers:
  - {name: p, kind: mock, policy: {attempts: 2, timeouts: {idle: 1m}, budget: {floor: 0.5}, breaker: {enabled: false, low_traffic: {consecutive: 7}}}}
models: [{name: m, targets: [{provider: p}]}]
`)
	got := c.PolicyOf(c.Providers[0])
	if got.Attempts != 2 || got.TotalAttempts != 5 || got.Backoff.Cap != 10*time.Second ||
		got.Timeouts.Idle != time.Minute || got.Timeouts.Connect != 5*time.Second ||
		got.Budget != (policy.Budget{Ratio: 0.1, Floor: 0.5}) || got.Breaker.Switch != policy.Off || got.Breaker.Probes != 2 ||
		got.Breaker.LowTraffic != (policy.LowTraffic{Consecutive: 7, Over: 2 * time.Second}) {
		t.Errorf("%+v", got)
	}
}

func TestFlagOverEnvironmentOverFileOverDefault(t *testing.T) {
	text := small + "server: {listen: '127.0.0.1:1', admin_listen: '127.0.0.1:2', max_body: 1MiB}\ndedupe: {linger: 0}\n"
	c, err := Load(Source{
		File: "config.yaml", Data: []byte(text),
		Env: []string{"ONCEGATE_SERVER_LISTEN=127.0.0.1:3", "ONCEGATE_SERVER_ADMIN_LISTEN=127.0.0.1:4",
			"ONCEGATE_POLICY_ATTEMPTS=7\n", "ONCEGATE_STORE_SECRET=a$b${NOT_EXPANDED}#: '", "ONCEGATE_SERVICE_HOST=10.0.0.1"},
		Flags: map[string]string{"server.listen": "127.0.0.1:5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"server.listen": "flag --listen", "server.admin_listen": "env ONCEGATE_SERVER_ADMIN_LISTEN",
		"server.max_body": "config.yaml:4", "server.heartbeat": "default", "policy.attempts": "env ONCEGATE_POLICY_ATTEMPTS",
	} {
		if got := c.places[path].String(); got != want {
			t.Errorf("%s is from %s, want %s", path, got, want)
		}
	}
	if c.Server.Listen != "127.0.0.1:5" || c.Server.AdminListen != "127.0.0.1:4" || c.Policy.Attempts != 7 || c.Dedupe.Linger != 0 {
		t.Errorf("%+v", c)
	}
	if c.Store.Secret != "a$b${NOT_EXPANDED}#: '" {
		t.Errorf("a variable's value was changed: %q", c.Store.Secret)
	}
}

func TestEnvironmentFaults(t *testing.T) {
	_, err := load(small, "ONCEGATE_SERVER_LISTN=127.0.0.1:1", "ONCEGATE_DEDUPE_WAIT=soon", "ONCEGATE_DASHBOARD_TIMEZONE=Mars", "ONCEGATE_PORT=tcp://10.0.0.1:80")
	for _, want := range []string{
		"env ONCEGATE_SERVER_LISTN: sets nothing; did you mean ONCEGATE_SERVER_LISTEN?",
		`env ONCEGATE_DEDUPE_WAIT: dedupe.wait: "soon" is not a duration`,
		`dashboard.timezone: "Mars" is no time zone`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if n := len(err.(Faults)); n != 3 {
		t.Errorf("%d faults:\n%v", n, err)
	}
}

// What the file gets wrong does not matter where a variable replaces it.
func TestOverrideReplacesTheFilesFault(t *testing.T) {
	mustLoad(t, small+"server: {listen: '${NOPE}'}\n", "ONCEGATE_SERVER_LISTEN=127.0.0.1:1")
}

func TestB061TTLZeroIsRefused(t *testing.T) {
	for _, ttl := range []string{"chat: 0", "chat: 0s", "embeddings: -1s", "long: 0m", "max: -7d"} {
		if _, err := load(small + "dedupe: {ttl: {" + ttl + "}}\n"); err == nil || !strings.Contains(err.Error(), "must be more than 0") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}

// The value of a variable is exactly what the upstream gets: it cannot change
// the structure of the file, whatever it holds.
func TestB086EnvironmentExpansion(t *testing.T) {
	text := `
providers:
  - name: p
    kind: openai
    base_url: http://h/v1
    api_keys: ["${K1}", "${K2}", "pa$$word", "${file:testdata/secret}", "${K3:-}"]
models: [{name: m, targets: [{provider: p, model: "${MODEL:-a: {b} # $${c}"}]}]
policy: {attempts: "${N}"}
`
	k1 := `p$B:x#"'\n é`
	c := mustLoad(t, text, "K1="+k1, "K2=sk-2\n", "N=4")
	want := []string{k1, "sk-2", "pa$word", "s3cret: [}"}
	if got := c.Providers[0].APIKeys; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.Policy.Attempts != 4 {
		t.Errorf("a number from the environment is %d", c.Policy.Attempts)
	}
	if _, err := load(strings.Replace(text, "${K1}", "${NOPE}", 1), "K2=x", "N=4"); err == nil || !strings.Contains(err.Error(), "the environment has no NOPE") {
		t.Errorf("unset variable: %v", err)
	}
}

func TestFaultsNeverQuoteSecrets(t *testing.T) {
	_, err := load(`
auth: {admin_token: "hunter2 x\ny"}
tools:
  - name: t
    base_url: "http://u:hunter2@h"
    headers: {Authorization: "Bearer hunter2\n", X-A: "$hunter2", X-B: " ${K}", X-C: [hunter2], Expect: hunter2, "X D": hunter2, Cookie: "${}hunter2", x-e: "hunter2", X-E: "hunter2"}
store: {secret: "hunter2"}
providers:
  - {name: p, kind: openai, base_url: "ftp://u:hunter2@h/?key=hunter2", api_keys: ["hunter2\nx", "$hunter2", "${K}", "${K}"]}
models: [{name: m, targets: [{provider: p}]}]
`, "K=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

func TestAliases(t *testing.T) {
	c := mustLoad(t, `
policy: &patient {attempts: 9}
providers: [{name: p, kind: mock, policy: *patient}]
models: [{name: m, targets: [{provider: p}]}]
`)
	if c.Providers[0].Policy.Attempts != 9 {
		t.Errorf("%+v", c.Providers[0].Policy)
	}
}

func TestModes(t *testing.T) {
	c := mustLoad(t, "dedupe: {mode: always}\nproviders: [{name: p, kind: mock}]\nmodels: [{name: m, dedupe: off, targets: [{provider: p}]}]\n")
	if m := ModeOf(c.Models[0].Dedupe); m == nil || *m != cache.Off {
		t.Errorf("the model's mode is %v", m)
	}
	if m := ModeOf(c.Dedupe.Mode); m == nil || *m != cache.Always {
		t.Errorf("the default mode is %v", m)
	}
	c = mustLoad(t, small)
	if m := ModeOf(c.Dedupe.Mode); m == nil || *m != cache.Duplicates {
		t.Errorf("the mode that is set nowhere is %v", m)
	}
	if m := ModeOf(c.Models[0].Dedupe); m != nil {
		t.Errorf("a model without a mode has %v", *m)
	}
}

// The files that are shipped are checked as they are, and with every
// commented-out block switched on.
func TestShippedFiles(t *testing.T) {
	env := []string{"OPENAI_API_KEY=sk-1", "ANTHROPIC_API_KEY=sk-2", "ACMEPAY_KEY=sk-3",
		"UNRELATED=x", "ONCEGATE_KEY_HASH=sha256:" + strings.Repeat("ab", 32)}
	data, err := os.ReadFile("../../../config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	switchedOn, n := uncomment(string(data))
	if n < 40 {
		t.Errorf("only %d lines of config.yaml are there to be switched on", n)
	}
	if c, err := Load(Source{File: "config.yaml", Data: []byte(switchedOn), Env: env}); err != nil {
		t.Errorf("config.yaml, switched on:\n%v\n%s", err, switchedOn)
	} else if len(c.Providers) != 4 || len(c.Auth.Keys) != 1 || len(c.Tools) != 2 {
		t.Errorf("config.yaml, switched on, has %d providers, %d keys and %d tools", len(c.Providers), len(c.Auth.Keys), len(c.Tools))
	}
	for name, e := range map[string][]string{"with a provider's key": env, "without": {env[4]}} {
		if _, err := Load(Source{File: "../../../config.docker.yaml", Env: e}); err != nil {
			t.Errorf("config.docker.yaml %s:\n%v", name, err)
		}
	}
	if _, err := Load(Source{File: "../../../config.yaml"}); err != nil {
		t.Errorf("config.yaml needs more than itself to run:\n%v", err)
	}
}

// uncomment switches every line on that was commented out: those whose # is not
// followed by exactly one space, which is how prose is written.
func uncomment(text string) (string, int) {
	lines, n := strings.Split(text, "\n"), 0
	for i, l := range lines {
		body := strings.TrimLeft(l, " ")
		if len(body) > 1 && body[0] == '#' && (body[1] != ' ' || strings.HasPrefix(body, "#  ")) {
			lines[i] = strings.Replace(l, "#", "", 1)
			n++
		}
	}
	return strings.Join(lines, "\n"), n
}
