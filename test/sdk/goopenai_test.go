//go:build sdk

package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// goCheck is what one check of go-openai works with.
type goCheck struct {
	*testing.T
	u       *upstream
	at      player // the upstream that plays the check
	g       gateway
	model   string // the check's own
	sent    atomic.Int64
	headers http.Header // sent with each request to the gateway

	mu      sync.Mutex
	answers []*http.Response // what the gateway answered, in order; their bodies are the SDK's
}

// RoundTrip counts what the SDK sends, which has no headers of a call's own.
func (c *goCheck) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	req = req.Clone(req.Context())
	maps.Copy(req.Header, c.headers)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		c.mu.Lock()
		c.answers = append(c.answers, resp)
		c.mu.Unlock()
	}
	return resp, err
}

// client is one of the gateway's, whose requests are counted.
func (c *goCheck) client(key string) *openai.Client {
	config := openai.DefaultConfig(key)
	config.BaseURL, config.HTTPClient = c.g.URL+"/v1", &http.Client{Transport: c}
	return openai.NewClientWithConfig(config)
}

func (c *goCheck) direct() *openai.Client {
	config := openai.DefaultConfig(upstreamKey)
	config.BaseURL = c.at.URL + "/v1"
	return openai.NewClientWithConfig(config)
}

func (c *goCheck) script(steps ...step) {
	c.Helper()
	if err := c.at.set(c.model, steps...); err != nil {
		c.Fatal(err)
	}
}

// ours has the check played by our own upstream: aimock can't.
func (c *goCheck) ours() {
	c.at, c.model = player{URL: c.u.URL}, "go-"+strings.ReplaceAll(c.Name(), "/", "-")
}

func (c *goCheck) paths() []string {
	c.Helper()
	paths, err := c.at.paths(c.model)
	if err != nil {
		c.Fatal(err)
	}
	return paths
}

func (c *goCheck) wantCalls(n int) {
	c.Helper()
	if have := len(c.paths()); have != n {
		c.Errorf("the upstream saw %d calls, want %d", have, n)
	}
}

func (c *goCheck) wantSent(n int64) {
	c.Helper()
	if have := c.sent.Load(); have != n {
		c.Errorf("the SDK sent %d requests, want %d", have, n)
	}
}

// wantHeader looks at the gateway's last answer.
func (c *goCheck) wantHeader(name, want string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 {
		c.Fatal("the gateway gave no answer")
	}
	if have := c.answers[len(c.answers)-1].Header.Get(name); have != want {
		c.Errorf("%s: %q, want %q", name, have, want)
	}
}

func (c *goCheck) chat() openai.ChatCompletionRequest {
	return openai.ChatCompletionRequest{
		Model:    c.model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: "say it"}},
	}
}

// ask gives one answer as the JSON of what the SDK understood.
func (c *goCheck) ask(client *openai.Client) (string, error) {
	resp, err := client.CreateChatCompletion(c.Context(), c.chat())
	return show(resp), err
}

func (c *goCheck) mustAsk(client *openai.Client) string {
	c.Helper()
	answer, err := c.ask(client)
	if err != nil {
		c.Fatal(err)
	}
	return answer
}

// atOnce gives one answer to each of the clients, who ask at the same time.
func (c *goCheck) atOnce(clients ...*openai.Client) []string {
	answers := make([]string, len(clients))
	var wg sync.WaitGroup
	for i, client := range clients {
		wg.Go(func() {
			var err error
			if answers[i], err = c.ask(client); err != nil {
				c.Error(err)
			}
		})
	}
	wg.Wait()
	return answers
}

// receiver is any of the SDK's streams.
type receiver[T any] interface {
	Recv() (T, error)
	Close() error
}

// receive reads a stream to its end, and gives what came before an error too.
func receive[T any](s receiver[T], err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var all []T
	for {
		event, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, event)
	}
}

func (c *goCheck) stream(client *openai.Client) ([]openai.ChatCompletionStreamResponse, error) {
	req := c.chat()
	req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	return receive(client.CreateChatCompletionStream(c.Context(), req))
}

// said is the text of a streamed answer.
func said(events []openai.ChatCompletionStreamResponse) string {
	var b strings.Builder
	for _, e := range events {
		for _, choice := range e.Choices {
			b.WriteString(choice.Delta.Content)
		}
	}
	return b.String()
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(text)
}

// goOperations are asked directly and through the gateway.
var goOperations = map[string]func(context.Context, *openai.Client, *goCheck) (any, error){
	"chat": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateChatCompletion(ctx, c.chat())
	},
	"chat stream": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return receive(client.CreateChatCompletionStream(ctx, c.chat()))
	},
	"chat stream with usage": func(_ context.Context, client *openai.Client, c *goCheck) (any, error) {
		return c.stream(client)
	},
	"completions": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateCompletion(ctx, openai.CompletionRequest{Model: c.model, Prompt: "say it"})
	},
	"completions stream": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return receive(client.CreateCompletionStream(ctx, openai.CompletionRequest{Model: c.model, Prompt: "say it"}))
	},
	"responses": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateResponse(ctx, openai.CreateResponseRequest{Model: c.model, Input: "say it"})
	},
	"responses stream": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return receive(client.CreateResponseStream(ctx, openai.CreateResponseRequest{Model: c.model, Input: "say it"}))
	},
	"embeddings": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateEmbeddings(ctx, openai.EmbeddingRequest{Model: openai.EmbeddingModel(c.model), Input: []string{"one", "two"}})
	},
	"moderations": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.Moderations(ctx, openai.ModerationRequest{Model: c.model, Input: "say it"})
	},
	"images": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateImage(ctx, openai.ImageRequest{Model: c.model, Prompt: "a fox"})
	},
	"speech": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		audio, err := client.CreateSpeech(ctx, openai.CreateSpeechRequest{
			Model: openai.SpeechModel(c.model), Input: "say it", Voice: openai.VoiceAlloy,
		})
		if err != nil {
			return nil, err
		}
		defer audio.Close()
		return io.ReadAll(audio)
	},
	"transcriptions": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateTranscription(ctx, openai.AudioRequest{
			Model: c.model, FilePath: "tone.wav", Reader: bytes.NewReader(make([]byte, 2052)),
		})
	},
	"transcriptions as text": func(ctx context.Context, client *openai.Client, c *goCheck) (any, error) {
		return client.CreateTranscription(ctx, openai.AudioRequest{
			Model: c.model, FilePath: "tone.wav", Reader: bytes.NewReader(make([]byte, 2052)), Format: openai.AudioResponseFormatText,
		})
	},
}

func TestGoOpenAI(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, "go-openai", "openai", u)
	sdk := "go-openai-" + moduleVersion("github.com/sashabaranov/go-openai")
	var passed, failed atomic.Int64
	checks := 0
	run := func(name string, body func(*goCheck)) {
		checks++
		model := fmt.Sprintf("go-openai-%d", checks)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("%s: %s", sdk, name)
					failed.Add(1)
				} else {
					passed.Add(1)
				}
			}()
			body(&goCheck{T: t, u: u, at: journal(u), g: g, model: model, headers: http.Header{}})
		})
	}
	t.Cleanup(func() {
		score(sdk, int(passed.Load()), int(failed.Load()))
	})

	for name, operation := range goOperations {
		run("1 same as direct "+name, func(c *goCheck) {
			c.ours()
			if name == "moderations" {
				c.model = openai.ModerationTextLatest // the SDK knows which there are
			}
			c.script()
			direct, err := operation(c.Context(), c.direct(), c)
			if err != nil {
				c.Fatal("direct: ", err)
			}
			asked := c.paths()
			c.script()
			through, err := operation(c.Context(), c.client(keyAlice), c)
			if err != nil {
				c.Fatal("through the gateway: ", err)
			}
			if show(through) != show(direct) {
				c.Errorf("through the gateway:\n%s\ndirect:\n%s", show(through), show(direct))
			}
			c.wantSent(1)
			c.wantCalls(1)
			if path := c.paths()[0]; path != asked[0] {
				c.Errorf("path %s, direct %s", path, asked[0])
			}
		})
	}

	run("models", func(c *goCheck) {
		list, err := c.client(keyAlice).ListModels(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		if !strings.Contains(show(list), `"configured-model"`) {
			c.Errorf("configured-model isn't in %s", show(list))
		}
		model, err := c.client(keyAlice).GetModel(c.Context(), "configured-model")
		if err != nil || model.ID != "configured-model" {
			c.Errorf("GetModel: %s, %v", show(model), err)
		}
	})

	run("2 two 503 are hidden", func(c *goCheck) {
		c.script(step{Status: 503}, step{Status: 503}, step{})
		c.mustAsk(c.client(keyAlice))
		c.wantSent(1)
		c.wantCalls(3)
	})

	// go-openai doesn't retry, but its users do, at once: they meet the memo.
	run("2 503 for ever", func(c *goCheck) {
		c.script(step{Status: 503})
		for _, reason := range []string{"attempts_exhausted", "failure_memo"} {
			_, err := c.ask(c.client(keyAlice))
			var apiErr *openai.APIError
			if !errors.As(err, &apiErr) || apiErr.HTTPStatusCode != 503 || !strings.Contains(apiErr.Message, "scripted 503") {
				c.Fatalf("want the upstream's 503, got %v", err)
			}
			c.wantHeader("x-should-retry", "false")
			c.wantHeader("Oncegate-Outcome", "failed")
			c.wantHeader("Oncegate-Reason", reason)
		}
		c.wantSent(2)
		c.wantCalls(3)
	})

	run("3 keyed calls at once and later", func(c *goCheck) {
		c.script(step{Delay: 1000})
		c.headers.Set("Idempotency-Key", "go-keyed")
		client := c.client(keyAlice)
		answers := c.atOnce(client, client)
		if later := c.mustAsk(client); answers[0] != answers[1] || answers[0] != later {
			c.Errorf("three answers to one key: %q and %q", answers, later)
		}
		c.wantHeader("Oncegate-Outcome", "replayed")
		c.wantHeader("Idempotent-Replayed", "true")
		c.wantSent(3)
		c.wantCalls(1)
	})

	run("3 a key with another body", func(c *goCheck) {
		c.script()
		c.headers.Set("Idempotency-Key", "go-other-body")
		client := c.client(keyAlice)
		c.mustAsk(client)
		other := c.chat()
		other.Temperature = 0.25
		_, err := client.CreateChatCompletion(c.Context(), other)
		var apiErr *openai.APIError
		if !errors.As(err, &apiErr) || apiErr.HTTPStatusCode != 422 || apiErr.Code != "idempotency_key_reused" {
			c.Errorf("want 422 idempotency_key_reused, got %v", err)
		}
		c.wantSent(2)
		c.wantCalls(1)
	})

	run("4 a caller that asks again after a time-out joins", func(c *goCheck) {
		c.script(step{Delay: 2500}, step{})
		client := c.client(keyAlice)
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		if _, err := client.CreateChatCompletion(ctx, c.chat()); !errors.Is(err, context.DeadlineExceeded) {
			c.Fatalf("want a time-out, got %v", err)
		}
		c.mustAsk(client)
		c.wantSent(2)
		c.wantCalls(1)
	})

	run("5 twins share one call", func(c *goCheck) {
		c.script(step{Delay: 1000})
		client := c.client(keyAlice)
		if answers := c.atOnce(client, client); answers[0] != answers[1] {
			c.Errorf("two answers: %q", answers)
		}
		c.wantSent(2)
		c.wantCalls(1)
	})

	run("4 a follower that leaves ends nothing", func(c *goCheck) {
		c.script(step{Delay: 1000})
		client := c.client(keyAlice)
		ctx, cancel := context.WithTimeout(c.Context(), 400*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		for range 3 {
			wg.Go(func() {
				if _, err := client.CreateChatCompletion(ctx, c.chat()); !errors.Is(err, context.DeadlineExceeded) {
					c.Errorf("want a time-out, got %v", err)
				}
			})
		}
		c.mustAsk(client)
		wg.Wait()
		c.wantSent(4)
		c.wantCalls(1)
	})

	run("5 two clients share nothing", func(c *goCheck) {
		c.script(step{Delay: 1000})
		if answers := c.atOnce(c.client(keyAlice), c.client(keyBob)); answers[0] == answers[1] {
			c.Errorf("both got %s", answers[0])
		}
		c.wantSent(2)
		c.wantCalls(2)
	})

	run("5 a delivered answer is not repeated", func(c *goCheck) {
		c.script()
		client := c.client(keyAlice)
		if first, again := c.mustAsk(client), c.mustAsk(client); first == again {
			c.Errorf("both got %s", first)
		}
		c.wantCalls(2)
	})

	for _, breakage := range []string{"connection", "headers"} {
		run("6 a stream reset before its first event, by "+breakage, func(c *goCheck) {
			if breakage == "headers" {
				c.ours()
			}
			c.script(step{Break: breakage}, step{})
			events, err := c.stream(c.client(keyAlice))
			if err != nil || !strings.HasSuffix(said(events), "and done.") {
				c.Errorf("want one whole stream, got %q, %v", said(events), err)
			}
			c.wantSent(1)
			c.wantCalls(2)
		})
	}

	for _, breakage := range []string{"end", "reset"} {
		run("6 a cut stream is an error, by "+breakage, func(c *goCheck) {
			if breakage == "end" {
				c.ours()
			}
			c.script(step{Break: breakage, Events: 7}, step{})
			c.headers.Set("Idempotency-Key", "go-cut-"+breakage)
			events, err := c.stream(c.client(keyAlice))
			var apiErr *openai.APIError
			if !errors.As(err, &apiErr) || !strings.HasPrefix(said(events), "To ") {
				c.Errorf("want a piece and then an APIError, got %q, %v", said(events), err)
			}
			c.wantSent(1)
			c.wantCalls(1)
			events, err = c.stream(c.client(keyAlice)) // a cut answer isn't kept
			if err != nil || !strings.HasSuffix(said(events), "and done.") {
				c.Errorf("want one whole stream, got %q, %v", said(events), err)
			}
			c.wantCalls(2)
		})
	}

	run("7 a keyed stream is replayed", func(c *goCheck) {
		c.script()
		c.headers.Set("Idempotency-Key", "go-stream")
		first, err := c.stream(c.client(keyAlice))
		if err != nil {
			c.Fatal(err)
		}
		again, err := c.stream(c.client(keyAlice)) // ends on [DONE], or it is an error here
		if err != nil {
			c.Fatal(err)
		}
		if show(first) != show(again) {
			c.Errorf("first\n%s\nagain\n%s", show(first), show(again))
		}
		if last := again[len(again)-1]; last.Usage == nil || last.Usage.TotalTokens != 18 {
			c.Errorf("the last chunk has no usage: %s", show(last))
		}
		c.wantHeader("Idempotent-Replayed", "true")
		c.wantCalls(1)
	})
}

// moduleVersion is that of a module that go.mod requires, without its v.
func moduleVersion(path string) string {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		return err.Error()
	}
	return string(regexp.MustCompile(regexp.QuoteMeta(path) + ` v(\S+)`).FindSubmatch(text)[1])
}
