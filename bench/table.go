//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// column is what was measured of one peer: CPU in us a call, and of the paced
// streams in percent of a core, memory in KiB a stream, times in ms, medians in
// us. 0 is not measured.
type column struct {
	unique, keyed, stream, replay, follower float64
	held, start, median, paced              float64

	written                float64 // a write that is replayed
	write, writer, writers float64 // a write; writes a second of one writer, and of many
}

// table is what was measured.
type table struct {
	floor, gateway column
	redis          column    // of a gateway on Redis; none is measured where there is no redis-server
	trips          float64   // round trips to Redis of one call
	followed       int       // streams that one node led and another followed: what paced is of
	subscribed     float64   // connections to Redis, beside the pool, of a node that follows them
	direct         float64   // median of the upstream alone, us
	crowd          int       // followers of one stream
	crowdCalls     int64     // upstream calls that they made
	noise          []float64 // the floor's unique request in each round, us
}

// Gates: what CPU may cost as a ratio to the floor's unique request, or its
// stream; memory a held stream in KiB; start to first 200 in ms.
const (
	gateUnique   = 1.6
	gateStream   = 1.5
	gateReplay   = 0.7
	gateFollower = 0.7
	gateWritten  = 1.0
	gateHeld     = 45
	gateStart    = 100

	gateRedis      = 2.2
	gateTrips      = 2.02 // two a call; the ledger's own, a few a second, are counted with them
	gateRedisAdded = 0.4  // ms
	gateFollowing  = 10   // percent of a core
	gateSubscribed = 16
)

// row is one line: figures of both peers, and what is held against the gate.
type row struct {
	name           string
	floor, gateway float64
	unit           string
	value, gate    float64 // gate 0: only to be read
	shape          string  // of value and gate
}

func (t *table) rows() []row {
	f, g := t.floor, t.gateway
	rows := []row{
		{"unique 1 KB request", f.unique, g.unique, "us", g.unique / f.unique, gateUnique, "%.2f x"},
		{"the same with an Idempotency-Key", f.unique, g.keyed, "us", g.keyed / f.unique, 0, "%.2f x"},
		{fmt.Sprintf("stream of %d chunks", chunks), f.stream, g.stream, "us", g.stream / f.stream, gateStream, "%.2f x"},
		{"replay", f.unique, g.replay, "us", g.replay / f.unique, gateReplay, "%.2f x"},
		{"follower", f.unique, g.follower, "us", g.follower / f.unique, gateFollower, "%.2f x"},
		{"keyed write to a tool", f.unique, g.write, "us", g.write / f.unique, 0, "%.2f x"},
		{"replay of a write", f.unique, g.written, "us", g.written / f.unique, gateWritten, "%.2f x"},
		{fmt.Sprintf("writes a second of %d writers, and of one", writers), g.writer, g.writers, "/s", g.writers / g.writer, 0, "%.1f x"},
		{"memory of a held stream", f.held, g.held, "KiB", g.held, gateHeld, "%.0f KiB"},
		{"start to first 200", f.start, g.start, "ms", g.start, gateStart, "%.0f ms"},
		{"added to the median at 400/s", (f.median - t.direct) / 1000, (g.median - t.direct) / 1000, "ms", (g.median - t.direct) / 1000, 0, "%.2f ms"},
	}
	if t.crowd > 0 {
		rows = append(rows, row{fmt.Sprintf("upstream calls of %d followers of a stream", t.crowd), 0, float64(t.crowdCalls), "", float64(t.crowdCalls), 1, "%.0f"})
	}
	if t.redis.unique > 0 {
		added := (t.redis.median - t.direct) / 1000
		rows = append(rows,
			row{"on Redis: unique 1 KB request", f.unique, t.redis.unique, "us", t.redis.unique / f.unique, gateRedis, "%.2f x"},
			row{"its round trips", 0, t.trips, "", t.trips, gateTrips, "%.2f"},
			row{"added to the median at 400/s", (f.median - t.direct) / 1000, added, "ms", added, gateRedisAdded, "%.2f ms"},
			row{fmt.Sprintf("%d streams led on another node, %d chunks/s each", t.followed, time.Second/pace), f.paced, t.redis.paced, "%", t.redis.paced, gateFollowing, "%.0f %%"},
			row{"connections for that", 0, t.subscribed, "", t.subscribed, gateSubscribed, "%.0f"},
		)
	}
	return rows
}

func (r row) passed() bool { return r.gate == 0 || r.value <= r.gate }

func (t *table) passed() bool {
	for _, r := range t.rows() {
		if t.gateway.unique > 0 && !r.passed() {
			return false
		}
	}
	return true
}

func (t *table) print(out io.Writer) {
	if t.floor.unique == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tfloor\toncegate\t\tresult\tgate\t\t")
	for _, r := range t.rows() {
		figure := func(v float64) string {
			if v == 0 {
				return "-"
			}
			if r.unit == "ms" && v < 10 {
				return fmt.Sprintf("%.2f", v)
			}
			return fmt.Sprintf("%.0f", v)
		}
		result, gate, verdict := "-", "-", ""
		if r.gateway != 0 {
			result = fmt.Sprintf(r.shape, r.value)
			if r.gate > 0 {
				gate, verdict = fmt.Sprintf(r.shape, r.gate), "ok"
				if !r.passed() {
					verdict = "MISSED"
				}
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.name, figure(r.floor), figure(r.gateway), r.unit, result, gate, verdict)
	}
	w.Flush()
	if t.gateway.unique > 0 && t.redis.unique == 0 {
		fmt.Fprintln(out, "Left out: all rows on Redis: there is no redis-server.")
	}
	fmt.Fprintf(out, "CPU a call, the best of %d rounds; the floor's unique request took %.0f to %.0f us.\n",
		len(t.noise), slices.Min(t.noise), slices.Max(t.noise))
}
