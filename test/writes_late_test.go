package test

import (
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// What comes when its caller was told that nobody knows settles the record, each
// answer as it would have in time.
func TestWritesLateAnswers(t *testing.T) {
	t.Parallel()
	const late = 1200 * time.Millisecond
	for name, c := range map[string]struct {
		answer up.Step
		want   problem // of repeats, once it is there
		runs   int     // in the end
	}{
		"done":         {up.Status(201, payment(1)), problem{status: 201, outcome: "replayed", reason: "key"}, 1},
		"refused":      {up.Status(400, `{"error":"no such account"}`), problem{status: 400, outcome: "replayed", reason: "key"}, 1},
		"not executed": {up.Status(503, `{}`), problem{status: 201, outcome: "executed"}, 2},
		"too large": {
			up.Status(201, strings.Repeat("x", 128<<10)),
			problem{status: 410, retry: "false", outcome: "refused", reason: "result_gone"}, 1,
		},
		"broken off": {
			up.Seq(up.Head(201, "Content-Length: 100"), up.Raw(`{"id":`), up.RST),
			problem{status: 502, retry: "false", outcome: "replayed"}, 1,
		},
		"in doubt itself": {up.Status(500, `{}`), problem{status: 424, retry: "false", outcome: "unknown"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			u.Choose(func(call *up.Call) up.Step {
				if call.N > 1 {
					return paid(call)
				}
				return up.Seq(up.Pause(late), c.answer)
			})
			g := harness.Start(t, u.URL(), harness.Config{"store.max_body": "128KiB"}, paying(u, harness.Map{
				"not_executed": []any{503}, "policy": harness.Map{"timeouts": harness.Map{"first_byte": "500ms"}},
			}))
			want424(t, charge(g, "k"))
			<-time.After(time.Until(u.Call(1).At.Add(late + 200*time.Millisecond)))
			var a *harness.Answer
			harness.Eventually(t, harness.Patience, "the late answer is there", func() bool {
				a = charge(g, "k", noWait)
				return a.Status == c.want.status
			})
			c.want.head(t, a)
			for range 2 {
				again := charge(g, "k")
				if again.Status != a.Status || again.Body != a.Body || again.Outcome() == "executed" {
					t.Errorf("then it was %d %s %.300s", again.Status, again.Outcome(), again.Body)
				}
			}
			g.Kill9()
			g.Restart()
			if again := charge(g, "k"); again.Status != a.Status || again.Body != a.Body {
				t.Errorf("after a crash it was %d %.300s, before it %d %.300s", again.Status, again.Body, a.Status, a.Body)
			}
			wantWrites(t, u, c.runs, g)
		})
	}
}
