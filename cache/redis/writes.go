package redis

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"oncegate/cache"
)

// claimWrite is Claim of a write.
func (s *Store) claimWrite(c cache.Claim) ([]any, *script, error) {
	w := c.Write
	about, err := json.Marshal(w.About)
	if err != nil {
		return nil, writeClaimScript, err
	}
	reply, err := s.do(writeClaimScript, tag(c.Key), writeKeys(c.Key),
		nonce(c.Nonce), c.Fingerprint[:], millis(c.Lease), millis(linger), nodeChannel(s.node), hex.EncodeToString(c.Key[:]),
		millis(sweepFor), s.encodeLines(c.Lapses), about, w.About.Tool,
		millis(w.Again), flag(w.Knowingly), millis(w.Within), flag(w.Aged), stepWords(cache.Step{Actor: w.About.Principal}))
	return reply, writeClaimScript, err
}

// outcome reads what a claim of a write is told beside its role: the origin,
// state, time, status, size, sum and frames.
func outcome(g *cache.Grant, reply []any) (err error) {
	if len(reply) < 1 {
		return malformed(writeClaimScript, reply)
	}
	if g.Origin, err = fence(reply[0]); err != nil {
		return malformed(writeClaimScript, reply)
	}
	if g.Role != cache.Replay && g.Role != cache.Gone && g.Role != cache.InDoubt {
		return nil
	}
	r := fieldsOf(reply[1:])
	if len(r) < 6 {
		return malformed(writeClaimScript, reply)
	}
	res := &cache.Result{State: writeStates[r[0]], Settled: moment(r[1])}
	if res.Status, res.Size, res.Sum, err = remembered(r[2:5]); err != nil || res.State == cache.Absent {
		return malformed(writeClaimScript, reply)
	}
	if r[5] != "" {
		if res.Frames, err = cache.DecodeFrames([]byte(r[5])); err != nil {
			return fmt.Errorf("%w: %s: %w", cache.ErrAway, writeClaimScript.name, err)
		}
	}
	g.Result = res
	return nil
}

// Dispatch is one round trip, with the wait for replicas in it.
func (s *Store) Dispatch(_ context.Context, h cache.Hold, n cache.Nonce) error {
	return fenced(s.durably(writeDispatchScript, tag(h.Key), writeKeys(h.Key), uint64(h.Fence), nonce(n)))
}

// Withdraw waits for no replica.
func (s *Store) Withdraw(_ context.Context, h cache.Hold, n cache.Nonce) error {
	return fenced(s.do(writeWithdrawScript, tag(h.Key), writeKeys(h.Key), uint64(h.Fence), nonce(n), millis(linger), millis(sweepFor)))
}

// settleWrite is Settle of a write.
func (s *Store) settleWrite(h cache.Hold, set cache.Settlement) error {
	var state string
	switch set.Result.State {
	case cache.Completed:
		state = "completed"
	case cache.Unknown:
		state = "unknown"
	case cache.Released:
		state = "released"
	default:
		return errNoEnd
	}
	args := slices.Concat([]any{uint64(h.Fence), nonce(set.Nonce), state}, answerArgs(set.Result, set.Keep, set.Memory),
		[]any{millis(logTail), s.encodeLines(set.Lines), millis(rememberReleased)})
	return fenced(s.durably(writeSettleScript, tag(h.Key), append(writeKeys(h.Key), logName(h)), args...))
}

var errNoEnd = errors.New("cache: a write ends as completed, unknown or released")

// Resolve waits for replicas as Dispatch does.
func (s *Store) Resolve(_ context.Context, k cache.Key, r cache.Resolution) error {
	what := cache.Step{Actor: r.Actor, Reason: r.Reason}
	switch r.Result.State {
	case cache.Completed:
		what.As = "completed"
	case cache.Released:
		what.As = "released"
	default:
		return errNoResolution
	}
	args := slices.Concat([]any{nonce(r.Nonce), uint64(r.Fence), what.As}, answerArgs(r.Result, r.Keep, r.Memory),
		[]any{stepWords(what), millis(rememberReleased)})
	reply, err := s.durably(writeResolveScript, tag(k), writeKeys(k), args...)
	if err != nil {
		return err
	}
	switch reply[0] {
	case "none":
		return cache.ErrNone
	case "settled":
		return cache.ErrSettled
	}
	return fenced(reply, nil)
}

var errNoResolution = errors.New("cache: an unknown outcome is resolved as completed or released")

// answerArgs are those of a script that keeps an answer. What completed is
// remembered for a while, whatever it says: at once it would be free again.
func answerArgs(res cache.Result, keep, memory time.Duration) []any {
	var frames []byte
	if res.Frames != nil {
		frames = cache.EncodeFrames(res.Frames)
	}
	return []any{millis(keep), millis(max(memory, keep, rememberReleased)), res.Status, res.Size, res.Sum[:], flag(len(res.Frames) > 0), frames}
}

func fenced(reply []any, err error) error {
	if err == nil && reply[0] == "fenced" {
		return cache.ErrFenced
	}
	return err
}

// stepWords is what a script does not know of a step, in one line.
func stepWords(step cache.Step) []byte {
	words, _ := json.Marshal(struct {
		Actor  string `json:"actor,omitempty"`
		Reason string `json:"reason,omitempty"`
		As     string `json:"as,omitempty"`
	}{step.Actor, step.Reason, step.As})
	return words
}

var writeStates = map[string]cache.State{
	"claimed": cache.Claimed, "dispatched": cache.Dispatched, "completed": cache.Completed,
	"unknown": cache.Unknown, "released": cache.Released,
}

// fieldsOf are a reply's texts.
func fieldsOf(v any) []string {
	list, _ := v.([]any)
	fields := make([]string, len(list))
	for n := range list {
		fields[n], _ = list[n].(string)
	}
	return fields
}

// moment reads milliseconds of the server's clock; nothing is no time.
func moment(text string) time.Time {
	if at, err := strconv.ParseInt(text, 10, 64); err == nil && at > 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// remembered reads status, size and sum, which may not be there.
func remembered(r []string) (status int, size int64, sum [32]byte, err error) {
	if r[0] == "" {
		return 0, 0, sum, nil
	}
	if status, err = strconv.Atoi(r[0]); err == nil {
		size, err = strconv.ParseInt(r[1], 10, 64)
	}
	if n := copy(sum[:], r[2]); err == nil && n != len(sum) {
		err = cache.ErrCodec
	}
	return status, size, sum, err
}
