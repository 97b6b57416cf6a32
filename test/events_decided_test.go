package test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
)

// summaries reads the summaries that a page is told, as they come.
func summaries(t *testing.T, g *harness.Gateway) <-chan gjson.Result {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.Admin+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	told := make(chan gjson.Result, 1000)
	go func() {
		defer close(told)
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if text, ok := strings.CutPrefix(in.Text(), "data: "); ok && gjson.Get(text, "doubts").Exists() {
				told <- gjson.Parse(text)
			}
		}
	}()
	return told
}

// heard waits for a summary of which that is true.
func heard(t *testing.T, told <-chan gjson.Result, within time.Duration, what string, is func(gjson.Result) bool) {
	t.Helper()
	begun := time.Now()
	for limit := time.After(within); ; {
		select {
		case s := <-told:
			if is(s) {
				t.Logf("%s: told after %v", what, time.Since(begun).Round(time.Millisecond))
				return
			}
		case <-limit:
			t.Errorf("%s: not told within %v", what, within)
			return
		}
	}
}

// Pages that are open are told soon that somebody decided a write: whoever looks
// at the same list would decide it, too.
func TestEventsTellOfADecision(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(b.lost)
	record := b.pay("k", order).Header.Get("Oncegate-Key")
	told := summaries(t, b.Gateway)
	heard(t, told, 5*time.Second, "a write in doubt", func(s gjson.Result) bool { return s.Get("doubts").Int() == 1 })
	<-time.After(1500 * time.Millisecond)
	if a := b.resolve(record, `{"as":"executed","reason":"seen"}`); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	heard(t, told, 10*time.Second, "that it is decided", func(s gjson.Result) bool { return s.Get("doubts").Int() == 0 })
}
