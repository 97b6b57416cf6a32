package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"oncegate/cache"
)

// Record gives one record of a write, as its server has it.
func (s *Store) Record(_ context.Context, k cache.Key) (cache.Record, error) {
	reply, err := s.do(writeRecordScript, tag(k), writeKeys(k))
	if err != nil {
		return cache.Record{}, err
	}
	if reply[0] == "none" {
		return cache.Record{}, cache.ErrNone
	}
	if len(reply) < 4 {
		return cache.Record{}, malformed(writeRecordScript, reply)
	}
	now, _ := reply[1].(int64)
	r, err := record(k, fieldsOf(reply[2]), now)
	if err != nil {
		return cache.Record{}, err
	}
	if answer, _ := reply[3].(string); answer != "" {
		if r.Frames, err = cache.DecodeFrames([]byte(answer)); err != nil {
			return cache.Record{}, fmt.Errorf("%w: %s: %w", cache.ErrAway, writeRecordScript.name, err)
		}
	}
	return r, nil
}

// record reads what write_records.lua shows of one.
func record(k cache.Key, f []string, now int64) (r cache.Record, err error) {
	if len(f) < 13 || writeStates[f[0]] == cache.Absent {
		return r, malformed(writeRecordsScript, f)
	}
	r = cache.Record{
		Key: k, State: writeStates[f[0]], Read: time.UnixMilli(now),
		Claimed: moment(f[4]), Dispatched: moment(f[5]), Settled: moment(f[6]), Expires: moment(f[7]), Forgotten: moment(f[8]),
	}
	if r.Fence, err = fence(f[1]); err == nil {
		r.Origin, err = fence(f[2])
	}
	if err == nil {
		err = json.Unmarshal([]byte(f[3]), &r.About)
	}
	if err == nil {
		r.Status, r.Size, r.Sum, err = remembered(f[9:12])
	}
	if err == nil {
		r.Trail, err = trail(f[12])
	}
	if err != nil {
		return r, malformed(writeRecordsScript, f)
	}
	if r.State == cache.Completed && !r.Expires.After(time.UnixMilli(now)) {
		r.State = cache.Tombstone
	}
	return r, nil
}

// trail reads the lines that step in write_preamble.lua makes.
func trail(text string) (steps []cache.Step, err error) {
	for line := range strings.Lines(text) {
		step, err := parseStep(line)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func parseStep(line string) (step cache.Step, err error) {
	words := strings.SplitN(strings.TrimSpace(line), " ", 5)
	if len(words) < 5 {
		return step, cache.ErrCodec
	}
	if words[4] != "-" {
		if err := json.Unmarshal([]byte(words[4]), &step); err != nil {
			return step, err
		}
	}
	step.At, step.What = moment(words[0]), words[1]
	if step.Fence, err = fence(words[2]); err == nil {
		step.Status, err = strconv.Atoi(words[3])
	}
	return step, err
}
