package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"oncegate/providers/mock"
)

// counter asks a mock what it saw, over HTTP.
type counter struct {
	base string // of the mock, without a path
}

// mockPatience is how long a mock has for an answer.
const mockPatience = 10 * time.Second

// load gives the mock a script, as a file has it.
func (c counter) load(ctx context.Context, script []byte) error {
	_, err := c.ask(ctx, http.MethodPost, "script", script)
	return err
}

// reset takes the script away again.
func (c counter) reset(ctx context.Context) error {
	_, err := c.ask(ctx, http.MethodPost, "reset", nil)
	return err
}

// counts is what a mock saw.
type counts struct {
	calls      int64 // requests that reached it, whole or in part
	executions int64 // writes that had their effect
	resources  int64 // payments and refunds made
}

// since is what was counted after before.
func (c counts) since(before counts) counts {
	return counts{c.calls - before.calls, c.executions - before.executions, c.resources - before.resources}
}

// counts is what the mock saw so far.
func (c counter) counts(ctx context.Context) (counts, error) {
	body, err := c.ask(ctx, http.MethodGet, "stats", nil)
	if err != nil {
		return counts{}, err
	}
	var s mock.Stats
	if err := json.Unmarshal(body, &s); err != nil {
		return counts{}, fmt.Errorf("the counts of the mock at %s are not readable: %w", c.base, err)
	}
	return counts{s.Requests + s.Partial, s.Executions, s.Resources}, nil
}

func (c counter) ask(ctx context.Context, method, what string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, mockPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/_mock/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("no mock answers at %s: %w", c.base, err)
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		return nil, fmt.Errorf("%s answers %s: is it oncegate mock?", r.URL, answer.Status)
	}
	return out, err
}
