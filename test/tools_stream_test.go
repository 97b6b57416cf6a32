package test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// An answer in events is relayed as it comes, byte for byte, and recorded at
// its end.
func TestToolsEventsAreLive(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Config{"server.heartbeat": "20ms"}) // nothing of ours is in it
	gate := make(chan struct{})
	const first, rest = ": hello\r\nid: 1\r\ndata: {\"step\":1}\r\n\r\n", "event: done\ndata: {\"step\":2}\n\n"
	b.api.Script(b.runsThen(up.Open(), up.Bytes(first), up.Gate(gate), up.Bytes(rest[:20]), up.Pause(100*time.Millisecond), up.Bytes(rest[20:])))
	s := b.Open(pay, order, "Idempotency-Key: k", "Accept: text/event-stream")
	follower := b.Open(pay, order, "Idempotency-Key: k", "Accept: text/event-stream")
	for name, c := range map[string]*harness.Stream{"the first": s, "a follower": follower} {
		if e, _ := c.Event(); e.Data != `{"step":1}` || c.Status != 200 || c.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %d %q %v", name, c.Status, e.Data, c.Header)
		}
		if c.Header.Get("Content-Length") != "" {
			t.Errorf("%s: Content-Length %s", name, c.Header.Get("Content-Length"))
		}
	}
	close(gate)
	for name, c := range map[string]*harness.Stream{"the first": s, "a follower": follower} {
		c.Rest()
		if c.Raw() != first+rest || !c.Clean() {
			t.Errorf("%s got %q, %v", name, c.Raw(), c.End())
		}
		if got := c.Trailer().Get("Oncegate-Recorded"); got == "false" {
			t.Errorf("%s is told that it was not recorded", name)
		}
	}
	a := b.pay("k", order)
	wantShared(t, a, "replayed", "key")
	if a.Status != 200 || a.Body != first+rest || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %q %v", a.Status, a.Body, a.Header)
	}
	b.wantRuns(1)
}

// One that breaks off breaks off for the client too; and the write is done.
func TestToolsEventsThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]up.Step{"closed": up.Cut, "reset": up.RST} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBank(t, nil)
			gate := make(chan struct{})
			const first = "data: {\"step\":1}\n\n"
			b.api.Script(b.runsThen(up.Open(), up.Bytes(first), up.Gate(gate), end))
			all := []*harness.Stream{b.Open(pay, order, "Idempotency-Key: k"), b.Open(pay, order, "Idempotency-Key: k")}
			for _, s := range all {
				s.Next()
			}
			close(gate)
			for i, s := range all {
				s.Rest()
				if s.Clean() || s.Raw() != first {
					t.Errorf("reader %d got %q, and its end was %v", i, s.Raw(), s.End())
				}
			}
			for range 2 {
				problem{502, "response_lost", "false", "replayed", "", ""}.wantTool(t, b.pay("k", order))
			}
			b.wantRuns(1)
		})
	}
}

// An answer too large to keep reaches the first one whole, while it comes; who
// asks again is told what it was.
func TestToolsAnswerTooLargeToKeep(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	b := openBank(t, nil, harness.Config{"server.heartbeat": "20ms"})
	gate := make(chan struct{})
	piece := strings.Repeat("0123456789abcdef", 64<<10)
	var pieces []string
	for range size / len(piece) {
		pieces = append(pieces, piece)
	}
	half := len(pieces) / 2
	b.api.Script(b.runsThen(up.Head(200, "Content-Type: text/plain"), up.Bytes(pieces[:half]...), up.Gate(gate), up.Pause(100*time.Millisecond), up.Bytes(pieces[half:]...)))
	s := b.Open(pay, order, "Idempotency-Key: k")
	for len(s.Raw()) < 8<<20 {
		if _, ok := s.Piece(harness.Patience); !ok {
			t.Fatalf("nothing came after %d bytes: %v", len(s.Raw()), s.End())
		}
	}
	close(gate)
	s.Rest()
	sum := sha256.Sum256([]byte(s.Raw()))
	if len(s.Raw()) != size || !s.Clean() || s.Header.Get("Oncegate-Outcome") != "executed" {
		t.Fatalf("%d bytes, %v", len(s.Raw()), s.End())
	}
	if want := sha256.Sum256([]byte(strings.Repeat(piece, size/len(piece)))); sum != want {
		t.Error("they are not the bytes that the API sent")
	}
	for range 2 {
		wantGone(t, b.pay("k", order), 200, s.Raw())
	}
	b.wantRuns(1)
}

// wantGone says that an answer is no longer kept, and which one it was.
func wantGone(t *testing.T, a *harness.Answer, status int, body string) {
	t.Helper()
	problem{410, "result_gone", "false", "", "result_gone", ""}.wantTool(t, a)
	sum := sha256.Sum256([]byte(body))
	for what, value := range map[string]any{"status": status, "size": len(body), "sha256": hex.EncodeToString(sum[:])} {
		if !names(a, value) {
			t.Errorf("the body lacks the answer's %s %v: %s", what, value, a.Body)
		}
	}
}
