package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each row is one fault in one tool: the keys beside its name, and its base_url
// where they have none; what the line says, and the mend.
func TestToolFaults(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"bas_url: x", "tools[0].bas_url: unknown key; did you mean base_url?"},
		{"base_url: ''", "tools[0].base_url: is missing; write it as https://api.example, or mock for the write API that is built in"},
		{"base_url: api.example", "is not an absolute http or https URL; write it as https://api.example"},
		{"base_url: 'ftp://h'", "is not an absolute http or https URL"},
		{"base_url: 'https://u:hunter2@h'", "tools[0].base_url: holds a user or password; put the credential into headers"},
		{"base_url: 'https://h/#x'", "has a fragment (#)"},
		{"headers: 5", "tools[0].headers: is not a section; indent names under it, each with its value"},
		{"headers: [a]", "tools[0].headers: is not a section"},
		{"headers: {<<: {a: b}}", "tools[0].headers.<<: merge keys are not read"},
		{"headers: {X-A: [b]}", "tools[0].headers.X-A: is a list or a section where one value is expected"},
		{"headers: {X-A: '${NOPE}'}", "tools[0].headers.X-A: the environment has no NOPE"},
		{"headers: {X-A: hunter2$}", "tools[0].headers.X-A: has a lone $"},
		{"headers: {X-A: ''}", `tools[0].headers.X-A: is empty; leave it out, or write "${NAME:-}"`},
		{"headers: {X-A:}", `tools[0].headers.X-A: is empty`},
		{`headers: {X-A: "hunter2\nx"}`, "tools[0].headers.X-A: holds a control character"},
		{"headers: {X-A: 'hunter2 '}", "begins or ends with a space; check how the secret is stored"},
		{"headers: {X A: hunter2}", `tools[0].headers.X A: "X A" is not a header name; write it as Authorization`},
		{"headers: {'': hunter2}", `"" is not a header name`},
		{"headers: {X-A: hunter2, X-A: b}", "tools[0].headers.X-A: stands twice, first in line 7"},
		{"headers: {X-A: hunter2, x-a: b}", "tools[0].headers.x-a: is the same header as X-A; keep one of them"},
		{"headers: {Connection: close}", "tools[0].headers.Connection: belongs to one connection, and is not forwarded; leave it out"},
		{"headers: {transfer-encoding: chunked}", "belongs to one connection"},
		{"headers: {Content-Length: 5}", "is made for each body"},
		{"headers: {Expect: 100-continue}", "is made for each body"},
		{"headers: {Accept-Encoding: br}", "is the gateway's own"},
		{"headers: {Idempotency-Key: k}", "would be one key for all writes; name it as upstream_key_header, and each write has its own"},
		{"headers: {x-idempotency-key: k}\n    upstream_key_header: X-Idempotency-Key", "tools[0].headers.x-idempotency-key: would be one key"},
		{"headers: {Oncegate-User: u}", "is between clients and this gateway"},
		{"key: needed", `tools[0].key: "needed" is not one of optional, required`},
		{"key_from: idempotency_key", "tools[0].key_from: is not a list"},
		{"key_from: [idempotency_key]", `tools[0].key_from[0]: "idempotency_key" is not a JSON pointer; write it as /idempotency_key`},
		{"key_from: ['']", `tools[0].key_from[0]: "" is not a JSON pointer`},
		{"key_from: [/a~2]", "is not a JSON pointer"},
		{"key_from: [/a, /b, /a]", "tools[0].key_from[2]: stands twice"},
		{"key_fields: ['']\n    window: 1h", `tools[0].key_fields[0]: "" is not a JSON pointer; write it as /order_id`},
		{"key_fields: [/a, /a]\n    window: 1h", "tools[0].key_fields[1]: stands twice"},
		{"key_from: [/a]\n    key_fields: [/b, /a]\n    window: 1h", `tools[0].key_fields[1]: "/a" stands in key_from, too: a body that has it has its key by that; remove it from one of them`},
		{"key_fields: [/a]", "config.yaml:5: tools[0].window: is missing; say how long the same key_fields mean the same write, as 1h"},
		{"window: 1h", "config.yaml:7: tools[0].window: is for key_fields, and there are none; name the fields, or leave it out"},
		{"key_fields: []\n    window: 1h", "is for key_fields, and there are none"},
		{"key_fields: [/a]\n    window: 0", `tools[0].window: "0" must be more than 0; leave it out`},
		{"key_fields: [/a]\n    window: 3600", `tools[0].window: "3600" is not a duration`},
		{"key_fields: [/a]\n    window: 8d", "tools[0].window: is longer than keys are remembered, 7d; make it shorter, or dedupe.ttl.tombstone longer"},
		{"upstream_key_header: Idempotency Key", `tools[0].upstream_key_header: "Idempotency Key" is not a header name`},
		{"upstream_key_header: Connection", `tools[0].upstream_key_header: "Connection" belongs to one connection`},
		{"upstream_key_header: Host", `"Host" has another meaning`},
		{"upstream_key_header: authorization", `"authorization" has another meaning; name the header in which this API takes idempotency keys`},
		{"upstream_key_header: X-Key\n    headers: {x-key: hunter2}", `tools[0].upstream_key_header: "X-Key" stands in headers, too; remove it there`},
		{"upstream_key_window: 1h", "tools[0].upstream_key_window: is for upstream_key_header, and there is none; name the header"},
		{"upstream_key_header: Idempotency-Key\n    upstream_key_window: 0s", `tools[0].upstream_key_window: "0s" must be more than 0; leave it out`},
		{"not_executed: 503", "tools[0].not_executed: is not a list"},
		{"not_executed: [399]", `tools[0].not_executed[0]: "399" must be at least 400`},
		{"not_executed: [503, 600]", `tools[0].not_executed[1]: "600" must be at most 599`},
		{"not_executed: [5xx]", `tools[0].not_executed[0]: "5xx" is not a whole number; write it in digits`},
		{"not_executed: [503, 429, 503]", "tools[0].not_executed[2]: stands twice"},
		{"probe: /x", "tools[0].probe: is not a section; indent keys under it: get, executed, absent_after"},
		{"probe: {got: 1}", "tools[0].probe.got: unknown key; did you mean get?"},
		{"probe: {executed: /id}", "config.yaml:7: tools[0].probe.get: is missing; write the path of a GET that finds the write"},
		{"probe: {get: '/p/{/id}'}", "config.yaml:7: tools[0].probe.executed: is missing; name what only the answer about a write that happened has"},
		{"probe: {get: '/p/{/id}', executed: id}", `tools[0].probe.executed: "id" is not a JSON pointer; write it as /data/0 or /id`},
		{"probe: {get: '/p/{/id}', executed: /id, absent_after: -1s}", `tools[0].probe.absent_after: "-1s" must be at least 0`},
		{"probe: {get: '/p', executed: /id}", `tools[0].probe.get: "/p" asks the same about every write; name the write by {/pointer} into its body or {upstream_key}`},
		{"probe: {get: 'p/{/id}', executed: /id}", `"p/{/id}" is not a path; write it under base_url`},
		{"probe: {get: 'https://h/{/id}', executed: /id}", "is not a path"},
		{"probe: {get: '/p/{ref}', executed: /id}", `tools[0].probe.get: "{ref}" is no placeholder; write {/pointer} for a value of the write's body, as {/ref}, or {upstream_key}`},
		{"probe: {get: '/p/{}', executed: /id}", `"{}" is no placeholder`},
		{"probe: {get: '/p/{/a~}', executed: /id}", `"{/a~}" is no placeholder`},
		{"probe: {get: '/p/{/a', executed: /id}", `has a { that belongs to no placeholder`},
		{"probe: {get: '/p/{/a}}', executed: /id}", `has a } that belongs to no placeholder`},
		{"probe: {get: '/p?key={upstream_key}', executed: /id}", "{upstream_key} is in no call, for there is no upstream_key_header"},
		{"probe: {get: '/p?a b={/id}', executed: /id}", "holds a space or a character that is none of a URL's"},
		{"probe: {get: '/p?ref={/id}#x', executed: /id}", "has a fragment (#)"},
		{"probe: {get: '/p/%2e./{/id}', executed: /id}", "has a segment of dots"},
		{"reads: POST /search", "tools[0].reads: is not a list"},
		{"reads: [/search]", `tools[0].reads[0]: "/search" is not a method and a path; write it as "POST /search"`},
		{"reads: [POST]", "is not a method and a path"},
		{"reads: [post /search]", "is not a method and a path"},
		{"reads: [POST search]", "is not a method and a path"},
		{"reads: ['POST  /search']", "is not a method and a path"},
		{"reads: ['POST /search*']", "is not a method and a path"},
		{"reads: ['POST /*/search']", "is not a method and a path"},
		{"reads: ['POST /a{b}']", "is not a method and a path"},
		{"reads: ['POST /{}']", "is not a method and a path"},
		{"reads: ['POST /a//b']", "is not a method and a path"},
		{"reads: ['POST /a?b=c']", "is not a method and a path"},
		{"reads: ['POST /a/../b']", "has a segment of dots"},
		{"reads: [GET /search]", `"GET /search" is a read by its method; leave it out`},
		{"replay_headers: [X A]", `tools[0].replay_headers[0]: "X A" is not a header name; write it as X-Payment-Id`},
		{"replay_headers: [X-Acme-*]", `"X-Acme-*" is a pattern; name the headers one by one`},
		{"replay_headers: [X-A, x-a]", `tools[0].replay_headers[1]: "x-a" stands twice`},
		{"replay_headers: [Set-Cookie]", `"Set-Cookie" is never replayed: it belongs to the one answer that it came with; leave it out`},
		{"replay_headers: [retry-after]", "is never replayed"},
		{"replay_headers: [WWW-Authenticate]", "is never replayed"},
		{"replay_headers: [Access-Control-Allow-Origin]", "is never replayed"},
		{"replay_headers: [X-RateLimit-Remaining]", "is never replayed"},
		{"replay_headers: [RateLimit-Policy]", "is never replayed"},
		{"replay_headers: [traceparent]", "is never replayed"},
		{"replay_headers: [Connection]", "is never replayed"},
		{"replay_headers: [Content-Encoding]", "is never replayed"},
		{"replay_headers: [Oncegate-Key]", "is never replayed"},
		{"wait: 0", `tools[0].wait: "0" must be more than 0; leave it out for the default of 30s`},
		{"policy: {attempts: 0}", `tools[0].policy.attempts: "0" must be more than 0`},
		{"policy: {backof: {}}", "tools[0].policy.backof: unknown key; did you mean backoff?"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			text := "tools:\n  - name: payments\n"
			if !strings.HasPrefix(c.keys, "base_url") {
				text += "    base_url: https://api.example\n"
			}
			onlyFault(t, small+text+"    "+c.keys+"\n", c.want)
		})
	}
}

func TestToolNameFaults(t *testing.T) {
	for _, c := range []struct{ tools, want string }{
		{"{}", "tools: is not a list"},
		{"[{base_url: mock}]", "config.yaml:4: tools[0].name: is missing; use letters, digits, dots, dashes and underscores, 64 at most"},
		{"[{name: a/b, base_url: mock}]", `"a/b" is not a name`},
		{"[{name: .., base_url: mock}]", `".." is not a name`},
		{"[{name: a b, base_url: mock}]", `"a b" is not a name`},
		{"[{name: 'a%2Fb', base_url: mock}]", `is not a name`},
		{"[{name: a, base_url: mock}, {name: b, base_url: mock}, {name: a, base_url: mock}]", `tools[2].name: "a" is the name of tools[0], too; rename one of them`},
	} {
		onlyFault(t, small+"tools: "+c.tools+"\n", c.want)
	}
}

// onlyFault checks that a file has one fault, and that it quotes no secret.
func onlyFault(t *testing.T, text, want string) {
	t.Helper()
	_, err := load(text)
	faults, ok := errors.AsType[Faults](err)
	if !ok || len(faults) != 1 {
		t.Fatalf("want one fault, got %v", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if faults[0].Mend == "" || faults[0].Place.Line == 0 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("no mend, no line or a secret: %v", err)
	}
}

// All that a tool can say, as the contract has it.
func TestTools(t *testing.T) {
	c := mustLoad(t, small+`
dedupe: {ttl: {tool: 36h, tombstone: 12h}}
policy: {attempts: 4}
tools:
  - name: payments
    base_url: https://api.acmepay.example
    headers: {Authorization: "Bearer ${ACMEPAY_KEY}", X-Version: 2026, Host: acmepay.example, X-Gone: "${NOPE:-}"}
    key: required
    key_from: [/idempotency_key, /meta/0/key~1id]
    key_fields: [/order_id, /amount]
    window: 36h
    upstream_key_header: Idempotency-Key
    upstream_key_window: 23h
    not_executed: [503, "${STATUS}"]
    probe: {get: "/v1/payments?ref={/ref}&key={upstream_key}", executed: /data/0, absent_after: 1m}
    reads: ["POST /search", "POST /v1/{kind}/query", "PUT /", "QUERY /*", "REPORT /a%20b/"]
    replay_headers: [X-Payment-Id, etag]
    wait: 5s
    policy: {attempts: 2, timeouts: {first_byte: 9s}}
  - {name: crm.v2, base_url: "http://10.0.0.1:8000/api?tenant=7"}
  - {name: mock, base_url: mock, upstream_key_header: X-Request-Id, probe:}
`, "ACMEPAY_KEY=hunter2\n", "STATUS=529")
	got := c.Tools[0]
	if p := c.PolicyOfTool(got); p.Attempts != 2 || p.TotalAttempts != 5 || p.Timeouts.FirstByte != 9*time.Second || p.Timeouts.Idle != 5*time.Minute {
		t.Errorf("policy: %+v", p)
	}
	if p := c.PolicyOfTool(c.Tools[1]); p.Attempts != 4 {
		t.Errorf("policy of another: %+v", p)
	}
	got.Policy = Policy{}
	want := Tool{
		Name: "payments", BaseURL: "https://api.acmepay.example", Headers: map[string]string{"Authorization": "Bearer hunter2", "X-Version": "2026", "Host": "acmepay.example"},
		Key: "required", KeyFrom: []string{"/idempotency_key", "/meta/0/key~1id"}, KeyFields: []string{"/order_id", "/amount"}, Window: 36 * time.Hour,
		UpstreamKeyHeader: "Idempotency-Key", UpstreamKeyWindow: 23 * time.Hour, NotExecuted: []int{503, 529},
		Probe:         Probe{Get: "/v1/payments?ref={/ref}&key={upstream_key}", Executed: "/data/0", AbsentAfter: time.Minute},
		Reads:         []string{"POST /search", "POST /v1/{kind}/query", "PUT /", "QUERY /*", "REPORT /a%20b/"},
		ReplayHeaders: []string{"X-Payment-Id", "etag"}, Wait: 5 * time.Second,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if d := c.Tools[1]; d.Key != "optional" || d.Wait != 30*time.Second || d.UpstreamKeyWindow != 0 || d.Probe != (Probe{}) {
		t.Errorf("defaults: %+v", d)
	}
	if w := c.Tools[2].UpstreamKeyWindow; w != 30*time.Minute {
		t.Errorf("upstream_key_window is %v where the file does not say", w)
	}
}

// Two tools may use one section by its alias; each has the faults of it.
func TestToolsByAlias(t *testing.T) {
	text := small + `
tools:
  - {name: a, base_url: mock, headers: &own {X-A: "1", Expect: h}}
  - {name: b, base_url: mock, headers: *own}
`
	_, err := load(text)
	if f, _ := errors.AsType[Faults](err); len(f) != 2 {
		t.Errorf("%v", err)
	}
	c := mustLoad(t, strings.Replace(text, ", Expect: h", "", 1))
	if fmt.Sprint(c.Tools[1].Headers) != "map[X-A:1]" {
		t.Errorf("%v", c.Tools[1].Headers)
	}
}

// A gateway for tools alone has no providers and no models.
func TestToolsAlone(t *testing.T) {
	c := mustLoad(t, "tools: [{name: payments, base_url: 'https://api.example'}]\n")
	if len(c.Providers)+len(c.Models) != 0 {
		t.Errorf("%+v %+v", c.Providers, c.Models)
	}
}

// A key may use all tools, some, or none.
func TestKeysTools(t *testing.T) {
	hash := "hash: 'sha256:" + strings.Repeat("0a", 31)
	c := mustLoad(t, small+"tools: [{name: payments, base_url: mock}]\nauth:\n  keys:\n"+
		"    - {name: all, "+hash+"01'}\n    - {name: some, "+hash+"02', tools: ['pay*', payments]}\n    - {name: none, "+hash+"03', tools: []}\n")
	for i, want := range []string{`["*"]`, `["pay*" "payments"]`, `[]`} {
		if got := c.Auth.Keys[i].Tools; fmt.Sprintf("%q", got) != want || got == nil {
			t.Errorf("key %d: %q, want %s", i, got, want)
		}
	}
}

// A cap below the default caps tools as it does the rest.
func TestToolTTLByDefaultIsNoFault(t *testing.T) {
	mustLoad(t, small+"dedupe: {ttl: {max: 1h}}\n")
}
