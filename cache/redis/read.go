package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"oncegate/cache"
)

const (
	// pollEvery is behind the notices: so late is a reader at most whose
	// notice was lost.
	pollEvery = 250 * time.Millisecond
	// readFrames is how many frames one reply brings at most.
	readFrames = 1024
)

// Read gives frames of the log, or the result that was written over it. A
// reader waits for notices, of which one connection brings those of all logs
// that this node follows.
//
// A lease that lapses is found out by asking when it should.
func (s *Store) Read(ctx context.Context, h cache.Hold, from int) ([]cache.Frame, *cache.Result, error) {
	if from < 0 {
		return nil, nil, errNegative
	}
	f := s.notices.follow(h)
	over := false
	defer func() { s.notices.leave(f, over) }()
	poll := time.NewTimer(pollEvery)
	defer poll.Stop()
	for {
		// Taken before asking: what is told in between is not missed.
		frames, told, ask, doubts := f.next(from)
		if len(frames) > 0 {
			return frames, nil, nil
		}
		if ask {
			frames, res, lease, err := s.read(h, from)
			if res != nil || err != nil {
				over = true
				return frames, res, err
			}
			f.asked(from+len(frames), doubts, lease)
			s.notices.subscribe(f)
			if len(frames) > 0 {
				return frames, nil, nil
			}
		}
		poll.Reset(f.patience(s.client.cluster == nil))
		select {
		case <-told:
		case <-poll.C:
			f.doubt()
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-s.closed:
			over = true
			return nil, nil, errClosed
		}
	}
}

// read asks once. Nothing at all: there is nothing new yet, and so much is left
// of the lease.
func (s *Store) read(h cache.Hold, from int) ([]cache.Frame, *cache.Result, time.Duration, error) {
	sc, keys := readScript, []string{recordName(h.Key), logName(h)}
	if ofWrite(h) {
		sc, keys = writeReadScript, append(writeKeys(h.Key), logName(h))
	}
	reply, err := s.stepOn(sc, h, keys, from, readFrames, hex.EncodeToString(h.Key[:]))
	if err != nil {
		return nil, nil, 0, err
	}
	switch reply[0] {
	case "live":
		if len(reply) < 3 {
			return nil, nil, 0, malformed(sc, reply)
		}
		frames, err := elements(reply[1])
		left, _ := reply[2].(int64)
		return frames, nil, time.Duration(left) * time.Millisecond, err
	case "lapsed":
		return nil, nil, 0, cache.ErrLapsed
	case "result":
		res, err := result(sc, reply[1:])
		if err != nil {
			return nil, nil, 0, err
		}
		return tail(res.Frames, from), res, 0, nil
	}
	return nil, nil, 0, malformed(sc, reply)
}

// elements reads a log's, each of which is one frame.
func elements(v any) ([]cache.Frame, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, malformed(readScript, v)
	}
	frames := make([]cache.Frame, 0, len(list))
	for _, e := range list {
		text, _ := e.(string)
		frame, err := cache.DecodeFrames([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("%w: read: %w", cache.ErrAway, err)
		}
		frames = append(frames, frame...)
	}
	return frames, nil
}

// tail gives frames from an index on, in a slice that can't grow into theirs.
func tail(frames []cache.Frame, from int) []cache.Frame {
	if from >= len(frames) {
		return nil
	}
	return frames[from:len(frames):len(frames)]
}
