package providers

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/policy"
	"oncegate/prices"
)

func TestWholeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		wire   Wire
		body   string
		media  string
		status int // of a failure
		cut    bool
		usage  prices.Usage
		object bool // of a failure: its body may be passed on
	}{
		"chat": {body: `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":1}}}`,
			usage: prices.Usage{Known: true, Input: 9, Output: 2, Cached: 4, Reasoning: 1}},
		"B089 reasoning inside":          {body: `{"choices":[{}],"usage":{"prompt_tokens":2008,"completion_tokens":266,"total_tokens":2274,"completion_tokens_details":{"reasoning_tokens":261}}}`, usage: prices.Usage{Known: true, Input: 2008, Output: 266, Reasoning: 261}},
		"B089 reasoning beside":          {body: `{"choices":[{}],"usage":{"prompt_tokens":36,"completion_tokens":10,"total_tokens":736,"completion_tokens_details":{"reasoning_tokens":690}}}`, usage: prices.Usage{Known: true, Mended: true, Input: 36, Output: 700, Reasoning: 690}},
		"cut by length":                  {body: `{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}`, cut: true},
		"B034 only tool calls":           {body: `{"choices":[{"message":{"content":null,"tool_calls":[{}]},"finish_reason":"tool_calls"}]}`},
		"B034 only a refusal":            {body: `{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`},
		"B034 an empty text":             {body: `{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}`},
		"B034 empty":                     {body: ``, status: 502},
		"B034 blanks":                    {body: " \n", status: 502},
		"B034 no choices":                {body: `{"choices":[]}`, status: 502},
		"B034 choices null":              {body: `{"choices":null}`, status: 502},
		"B034 no choices key":            {body: `{}`, status: 502},
		"null":                           {body: `null`, status: 502},
		"a list":                         {body: `[{"choices":[{}]}]`, status: 502},
		"half a document":                {body: `{"choices":[{}`, status: 502},
		"HTML":                           {body: `<html>hello</html>`, media: "text/html", status: 502},
		"JSON as text":                   {body: `{"choices":[{}]}`, media: "text/plain"},
		"blank lines before":             {body: "\n\n\n" + `{"choices":[{}]}`},
		"B035 with a number":             {body: `{"error":{"message":"ResourceExhausted","code":502}}`, status: 502, object: true},
		"B035 with a name":               {body: `{"error":{"message":"too long","code":"context_length_exceeded"}}`, status: 400, object: true},
		"B035 a number as text":          {body: `{"error":{"message":"x","code":"503"}}`, status: 503, object: true},
		"an error that says nothing":     {body: `{"error":"x"}`, status: 502, object: true},
		"an error beside choices":        {body: `{"choices":[{}],"error":{"message":"x","type":"rate_limit_error"}}`, status: 429, object: true},
		"error null":                     {body: `{"error":null,"choices":[{}]}`},
		"error empty":                    {body: `{"error":{},"choices":[{}]}`},
		"vLLM's old form":                {body: `{"object":"error","message":"x","code":400}`, status: 400, object: true},
		"completions":                    {wire: Completions, body: `{"choices":[{"text":"a","finish_reason":"content_filter"}]}`, cut: true},
		"embeddings":                     {wire: Embeddings, body: `{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`, usage: prices.Usage{Known: true, Input: 7}},
		"embeddings as a list":           {wire: Embeddings, body: `[[0.1]]`},
		"rerank":                         {wire: Rerank, body: `{"results":[],"usage":{"total_tokens":12}}`, usage: prices.Usage{Known: true, Input: 12}},
		"moderations":                    {wire: Moderations, body: `{"results":[{}]}`},
		"images":                         {wire: Images, body: `{"data":[{}],"usage":{"input_tokens":3,"output_tokens":4}}`, usage: prices.Usage{Known: true, Input: 3, Output: 4}},
		"messages":                       {wire: Messages, body: `{"type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":7}}`, usage: prices.Usage{Known: true, Input: 115, Output: 7, Cached: 100, CacheWrite5m: 5}},
		"messages, cut":                  {wire: Messages, body: `{"content":[],"stop_reason":"max_tokens"}`, cut: true},
		"messages, refused":              {wire: Messages, body: `{"content":[],"stop_reason":"refusal"}`, cut: true},
		"messages, empty":                {wire: Messages, body: `{}`, status: 502},
		"messages, an error":             {wire: Messages, body: `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, status: 529, object: true},
		"count_tokens":                   {wire: CountTokens, body: `{"input_tokens":7}`},
		"responses":                      {wire: Responses, body: `{"status":"completed","error":null,"output":[],"usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":8},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":25}}`, usage: prices.Usage{Known: true, Input: 20, Output: 5, Cached: 8, Reasoning: 3}},
		"responses, incomplete":          {wire: Responses, body: `{"status":"incomplete","output":[]}`, cut: true},
		"responses, failed":              {wire: Responses, body: `{"status":"failed","error":{"code":"server_error","message":"x"},"output":[]}`, status: 500, object: true},
		"responses, empty":               {wire: Responses, body: `{}`, status: 502},
		"a transcript as text":           {wire: Transcriptions, body: "hello\n", media: "text/plain"},
		"a silent transcript":            {wire: Transcriptions, body: "", media: "text/plain"},
		"a transcript as JSON":           {wire: Transcriptions, body: `{"text":"hello","usage":{"type":"tokens","input_tokens":14,"output_tokens":5}}`, usage: prices.Usage{Known: true, Input: 14, Output: 5}},
		"a transcript with its duration": {wire: Transcriptions, body: `{"text":"hello","usage":{"type":"duration","seconds":9}}`, usage: prices.Usage{Known: true, AudioMillis: 9000}},
		"a stream asked for, JSON given": {body: `{"choices":[{"finish_reason":"stop"}]}`},
		"speech that is an error":        {wire: Speech, body: `{"error":{"message":"x","code":"rate_limit_exceeded"}}`, status: 429, object: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.wire == 0 {
				c.wire = Chat
			}
			if c.media == "" {
				c.media = "application/json"
			}
			request := hi
			if strings.HasPrefix(name, "a stream asked") {
				request = hiStream
			}
			length := answer(200, c.media, c.body)
			chunked := func(conn net.Conn) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: "+c.media+"\r\nTransfer-Encoding: chunked\r\n\r\n")
				for i := 0; i < len(c.body); i += 100 {
					io.WriteString(conn, chunk(c.body[i:min(len(c.body), i+100)]))
				}
				io.WriteString(conn, "0\r\n\r\n")
			}
			for _, script := range []func(net.Conn){length, chunked} {
				got := try(t, relay(t, serve(t, script)), call(c.wire, request))
				if c.status != 0 {
					failed(t, got.err, policy.Answered, c.status)
					if !got.err.BadAnswer || got.err.Object != c.object {
						t.Errorf("BadAnswer %v, object %v", got.err.BadAnswer, got.err.Object)
					}
					continue
				}
				if got.err != nil {
					t.Fatal(got.err)
				}
				if got.bytes() != c.body || len(got.pieces) != 1 {
					t.Errorf("%q in %d pieces", got.bytes(), len(got.pieces))
				}
				if want := (End{Whole: true, Cut: c.cut, Usage: c.usage}); got.end != want {
					t.Errorf("%+v, want %+v", got.end, want)
				}
			}
		})
	}
}

// What a name inside a 200 means to the policy.
func TestErrorsInside(t *testing.T) {
	for body, want := range map[string]policy.Failure{
		`{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`:         {Status: 429, Throttle: true, Quota: true},
		`{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`: {Status: 400, ContextLength: true},
		`{"error":{"code":"rate_limit_exceeded","message":"try again in 2s"}}`:        {Status: 429, Throttle: true, RetryAfter: 2e9, HasRetryAfter: true},
		`{"error":{"code":"invalid_api_key"}}`:                                        {Status: 401, Credential: true},
		`{"error":{"code":529}}`:                                                      {Status: 529, Throttle: true},
		`{"error":{"code":1302,"message":"x"}}`:                                       {Status: 502},
		`{"error":"busy","code":503}`:                                                 {Status: 503},
		`{"error":{"code":200}}`:                                                      {Status: 502},
		`{"error":{"status":"RESOURCE_EXHAUSTED","code":429}}`:                        {Status: 429, Throttle: true},
	} {
		got := try(t, relay(t, serve(t, json200(body))), call(Chat, hi))
		failed(t, got.err, policy.Answered, want.Status)
		want.Phase, want.BadAnswer, want.Err = policy.Answered, true, got.err.Err
		if got.err.Failure != want {
			t.Errorf("%s: %+v\nwant %+v", body, got.err.Failure, want)
		}
	}
}

// An answer too large to be judged is given on live, whole.
func TestLargeAnswers(t *testing.T) {
	body := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 300_000) + `"}}]}`
	r := relay(t, serve(t, json200(body)), func(o *Options) { o.MaxJudged = 100_000 })
	got := try(t, r, call(Chat, hi))
	if got.err != nil || got.bytes() != body || len(got.pieces) < 2 || !got.end.Whole {
		t.Fatalf("%v, %d bytes in %d pieces", got.err, len(got.bytes()), len(got.pieces))
	}
	for _, size := range []int64{int64(len(body)), int64(len(body)) - 1} {
		r := relay(t, serve(t, json200(body)), func(o *Options) { o.MaxJudged = size })
		if got := try(t, r, call(Chat, hi)); got.err != nil || got.bytes() != body || !got.end.Whole {
			t.Fatalf("%d: %v", size, got.err)
		}
	}
	cut := relay(t, serve(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n\r\n"+body)
		c.Close()
	}), func(o *Options) { o.MaxJudged = 1000 })
	failed(t, try(t, cut, call(Chat, hi)).err, policy.Broken, 0)
}

func TestAudio(t *testing.T) {
	audio := strings.Repeat("\x00\xff\r\n\n", 40_000)
	got := try(t, relay(t, serve(t, answer(200, "audio/mpeg", audio))), call(Speech, hi))
	if got.err != nil || got.bytes() != audio || !got.end.Whole {
		t.Fatalf("%v, %d bytes", got.err, len(got.bytes()))
	}
	failed(t, try(t, relay(t, serve(t, answer(200, "audio/mpeg", ""))), call(Speech, hi)).err, policy.Answered, 502)
	cut := serve(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 9999999\r\n\r\n"+audio)
		c.Close()
	})
	failed(t, try(t, relay(t, cut), call(Speech, hi)).err, policy.Broken, 0)
}

func TestRawAnswersAreNotJudged(t *testing.T) {
	for _, body := range []string{"", `{"error":{"code":500}}`, "<html>"} {
		got := try(t, relay(t, serve(t, json200(body))), call(Raw, ""))
		if got.err != nil || got.bytes() != body || !got.end.Whole {
			t.Fatalf("%q: %v", body, got.err)
		}
	}
}

// Some servers stream events as text/plain.
func TestEventsWithoutTheirType(t *testing.T) {
	got := try(t, relay(t, serve(t, answer(200, "text/plain", text("a")+finish+done))), call(Chat, hiStream))
	if got.err != nil || got.header.Get("Content-Type") != "text/event-stream" || got.bytes() != text("a")+finish+done {
		t.Fatalf("%v %v", got.err, got.header)
	}
}

// TestDeepNesting: brackets alone, which a reader that recurses would follow
// until the process has no stack left.
func TestDeepNesting(t *testing.T) {
	deep := bytes.Repeat([]byte("["), 8<<20)
	if _, ok := judgeJSON(Embeddings, deep); ok {
		t.Error("brackets are an answer")
	}
	if object := append([]byte(`{"a":`), deep...); isObject(object) {
		t.Error("brackets are an object")
	}
	if got := unterminated(append([]byte("data: "), deep...)); got != nil {
		t.Error("brackets are an event")
	}
}

func FuzzErrorInside(f *testing.F) {
	for _, s := range []string{`{"error":{"code":503,"type":"server_error"}}`, `{"error":"x"}`, `{"object":"error","code":"429"}`, `{"response":{"error":{"code":"x"}}}`, `x`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if got := readError(in); got.status < 400 || got.status > 599 {
			t.Fatalf("%q: status %d", in, got.status)
		}
		if object := asObject(in); !gjson.ValidBytes(object) || !isObject(object) {
			t.Fatalf("%q became %q", in, object)
		}
		if j, ok := judgeJSON(Chat, in); ok && !j.fault && j.missing == "" && len(in) == 0 {
			t.Fatal("nothing is an answer")
		}
	})
}

// The shortcut for chunks that are alike says what reading them says.
func FuzzShape(f *testing.F) {
	f.Add(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"content":"b c"},"finish_reason":null}]}`)
	f.Add(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\"},\"finish_reason\":\"stop"}}]}`)
	f.Add(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\\"}}]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		if !gjson.Valid(first) || !gjson.Valid(second) {
			return
		}
		var quick, slow choicesStream
		quick.event(nil, []byte(first))
		a := quick.event(nil, []byte(second))
		slow.event(nil, []byte(first))
		slow.last = shape{}
		b := slow.event(nil, []byte(second))
		if a != b || quick.end() != slow.end() {
			t.Fatalf("%s, then %s: %+v %+v, read: %+v %+v", first, second, a, quick.end(), b, slow.end())
		}
	})
}
