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

// calls is how many requests reached the mock so far, whole or in part.
func (c counter) calls(ctx context.Context) (int64, error) {
	body, err := c.ask(ctx, http.MethodGet, "stats", nil)
	if err != nil {
		return 0, err
	}
	var s mock.Stats
	if err := json.Unmarshal(body, &s); err != nil {
		return 0, fmt.Errorf("the counts of the mock at %s are not readable: %w", c.base, err)
	}
	return s.Requests + s.Partial, nil
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
