package test

import (
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// A model's name is in the headers of its answer. One that no header can carry is
// refused: an answer that was paid for, and that no client can read, is worse.
func TestModelNameThatNoHeaderCanCarry(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.New(t).URL())
	for _, name := range []string{`m\u0000`, `m\u0001x`, `m\u007f`, `m\u001b[31m`, strings.Repeat("m", 20_000)} {
		a := g.Try("POST", harness.Chat, `{"model":"`+name+`","messages":[{"role":"user","content":"hi"}]}`)
		if a.Err != nil || a.Status != 400 || a.Field("error.param").String() != "model" {
			t.Errorf("%.20s: %d %v %.100s", name, a.Status, a.Err, a.Body)
		}
	}
}
