package redis

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"oncegate/cache"
)

const (
	// linger is how long after its lease a claim that nobody settled or took
	// over is forgotten.
	linger = 10 * time.Minute
	// sweepFor is how long it stays after that, to be swept by some node.
	sweepFor = 24 * time.Hour
	// rememberReleased is how long the steps of a released record can be sent
	// again.
	rememberReleased = time.Minute
	// logTail is how long the end of a followed log stays for its readers,
	// whoever claims the record next.
	logTail = time.Minute
	// appendBytes is about how much one script appends: a long prefix goes in
	// parts, so that it holds up no other step.
	appendBytes = 512 << 10
)

// Claim is one round trip; a Replay comes with its result.
func (s *Store) Claim(_ context.Context, c cache.Claim) (cache.Grant, error) {
	sent := s.claimCompletion
	if c.Write != nil {
		sent = s.claimWrite
	}
	reply, sc, err := sent(c)
	if err != nil {
		var f *failure
		if errors.As(err, &f) && f.sent && !s.o.KeepLost {
			s.GiveBack(c, nil)
		}
		return cache.Grant{}, err
	}
	role, ok := reply[0].(int64)
	if ok && role == 0 {
		return cache.Grant{}, fmt.Errorf("%w: this claim was given back: claim with a new nonce", cache.ErrAway)
	}
	if !ok || len(reply) < 5 {
		return cache.Grant{}, malformed(sc, reply)
	}
	share, _ := reply[2].(string)
	lapsed, _ := reply[3].(int64)
	g := cache.Grant{Role: cache.Role(role), Share: cache.Share(share), Lapsed: lapsed == 1}
	if g.Fence, err = fence(reply[1]); err != nil {
		return cache.Grant{}, malformed(sc, reply)
	}
	if at, _ := reply[4].(int64); at > 0 {
		g.At = time.UnixMilli(at)
	}
	switch {
	case c.Write != nil:
		err = outcome(&g, reply[5:])
	case g.Role == cache.Replay:
		g.Result, err = result(sc, reply[5:])
	}
	if err != nil {
		return cache.Grant{}, err
	}
	if g.Result != nil {
		// What counts is how long ago it was: the two clocks need not agree.
		g.Result.Settled = s.now().Add(-g.At.Sub(g.Result.Settled))
	}
	return g, nil
}

func (s *Store) claimCompletion(c cache.Claim) ([]any, *script, error) {
	t := tag(c.Key)
	reply, err := s.do(claimScript, t, []string{recordName(c.Key), fencesName(t), inflightName(t), tailName(t)},
		nonce(c.Nonce), c.Fingerprint[:], flag(c.Explicit), int(c.Mode), flag(c.Retry),
		millis(c.Lease), millis(linger), nodeChannel(s.node), hex.EncodeToString(c.Key[:]),
		millis(sweepFor), s.encodeLines(c.Lapses))
	return reply, claimScript, err
}

// Note keeps what a claim comes to if nobody settles it, in place of Claim.Lapses.
func (s *Store) Note(h cache.Hold, lapses []cache.Line) error {
	_, err := s.step(noteScript, h, s.encodeLines(lapses))
	return err
}

// Renew extends a lease, a lapsed one too if nobody took over.
func (s *Store) Renew(_ context.Context, h cache.Hold, lease time.Duration) (wanted bool, err error) {
	sc, keys := renewScript, []string{recordName(h.Key), logName(h), inflightName(tag(h.Key))}
	if ofWrite(h) {
		sc, keys = writeRenewScript, append(writeKeys(h.Key), logName(h))
	}
	reply, err := s.stepOn(sc, h, keys, millis(lease), millis(linger), millis(sweepFor))
	if err != nil {
		return false, err
	}
	return len(reply) > 1 && reply[1] == "1", nil
}

// Ask has the readers of a log, on all nodes, say so again.
func (s *Store) Ask(_ context.Context, h cache.Hold) (wanted bool, err error) {
	reply, err := s.step(askScript, h, millis(cache.Unread))
	if err != nil {
		return false, err
	}
	return len(reply) > 1 && reply[1] == "1", nil
}

// Append publishes frames. Many go in several parts, each of which is atomic.
func (s *Store) Append(_ context.Context, h cache.Hold, from int, frames []cache.Frame) error {
	if from < 0 {
		return errNegative
	}
	for {
		args := []any{from, millis(linger)}
		size := 0
		for len(frames) > 0 && (size == 0 || size+len(frames[0].Data) < appendBytes) {
			size += len(frames[0].Data) + 64
			args = append(args, cache.EncodeFrames(frames[:1]))
			frames = frames[1:]
			from++
		}
		reply, err := s.step(appendScript, h, args...)
		if err != nil {
			return err
		}
		if reply[0] == "gap" {
			return fmt.Errorf("cache: frames from %d on leave a gap after the %v that are there", args[0], reply[1])
		}
		if len(frames) == 0 {
			return nil
		}
	}
}

var errNegative = errors.New("cache: no frame has an index below 0")

// Settle ends a record, and writes the result over its log if that is
// followed.
func (s *Store) Settle(_ context.Context, h cache.Hold, set cache.Settlement) error {
	if ofWrite(h) {
		return s.settleWrite(h, set)
	}
	res := set.Result
	state, keep, frames := "released", rememberReleased, []byte(nil)
	if set.Keep > 0 {
		switch res.State {
		case cache.Completed:
			state, keep = "completed", set.Keep
		case cache.Failed:
			state, keep = "failed", set.Keep
		}
	}
	if state != "released" || res.Frames != nil {
		frames = cache.EncodeFrames(res.Frames)
	}
	args := []any{nonce(set.Nonce), state, millis(keep), flag(res.Cut), frames, millis(min(keep, logTail)), s.encodeLines(set.Lines), int64(0), flag(set.Alone)}
	if !set.Ended.IsZero() {
		args[len(args)-2] = set.Ended.UnixMilli()
	}
	for _, left := range set.Owed {
		// A duration: the two clocks need not agree.
		if counts := set.Debt - s.now().Sub(left); counts > 0 {
			args = append(args, millis(counts))
		}
	}
	reply, err := s.stepOn(settleScript, h, []string{recordName(h.Key), logName(h), tailName(tag(h.Key)), inflightName(tag(h.Key))}, args...)
	if err == nil && reply[0] == "followed" {
		return cache.ErrFollowed
	}
	return err
}

// Owe adds a debt to a record in flight or completed.
func (s *Store) Owe(_ context.Context, h cache.Hold, n cache.Nonce, d time.Duration) error {
	if d <= 0 || ofWrite(h) { // nothing is owed of what replays to everybody
		return s.away(tag(h.Key))
	}
	_, err := s.step(oweScript, h, nonce(n), millis(d))
	return err
}

// step runs a script on a record and the log of a claim.
func (s *Store) step(sc *script, h cache.Hold, args ...any) ([]any, error) {
	return s.stepOn(sc, h, []string{recordName(h.Key), logName(h)}, args...)
}

func (s *Store) stepOn(sc *script, h cache.Hold, keys []string, args ...any) ([]any, error) {
	all := append(make([]any, 0, 1+len(args)), uint64(h.Fence))
	reply, err := s.do(sc, tag(h.Key), keys, append(all, args...)...)
	if err == nil && reply[0] == "fenced" {
		return nil, cache.ErrFenced
	}
	return reply, err
}

// result reads state, time, whether it was cut, frames, and if they are there
// when it ended, and status, size and sum.
func result(sc *script, reply []any) (*cache.Result, error) {
	if len(reply) < 4 {
		return nil, malformed(sc, reply)
	}
	state, _ := reply[0].(string)
	settled, _ := reply[1].(string)
	frames, ok := reply[3].(string)
	at, err := strconv.ParseInt(settled, 10, 64)
	if err != nil || !ok || states[state] == 0 {
		return nil, malformed(sc, reply)
	}
	res := &cache.Result{State: states[state], Settled: time.UnixMilli(at), Cut: reply[2] == "1"}
	if len(reply) > 4 {
		text, _ := reply[4].(string)
		if at, _ := strconv.ParseInt(text, 10, 64); at > 0 {
			res.Ended = time.UnixMilli(at)
		}
	}
	if len(reply) > 7 { // of a write
		if res.Status, res.Size, res.Sum, err = remembered(fieldsOf(reply[5:8])); err != nil {
			return nil, malformed(sc, reply)
		}
	}
	if frames == "" { // released, with nothing to show
		return res, nil
	}
	if res.Frames, err = cache.DecodeFrames([]byte(frames)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", cache.ErrAway, sc.name, err)
	}
	return res, nil
}

var states = map[string]cache.State{"completed": cache.Completed, "failed": cache.Failed, "released": cache.Released, "unknown": cache.Unknown}

func fence(v any) (cache.Fence, error) {
	text, _ := v.(string)
	n, err := strconv.ParseUint(text, 10, 64)
	return cache.Fence(n), err
}

// nonce is empty for the zero one, whose steps are not remembered.
func nonce(n cache.Nonce) string {
	if n == (cache.Nonce{}) {
		return ""
	}
	return hex.EncodeToString(n[:])
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
