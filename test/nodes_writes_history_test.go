package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// What the history of writes checks: a key as its callers and the upstream see
// it.
type (
	// paymentInput is the upstream's making of a payment, or a caller's asking.
	paymentInput struct {
		key  string
		made string // the payment; "": a caller asks
	}
	paymentState struct {
		made  string // the payment
		known knowledge
		led   bool // somebody was told that it was its call that ran
	}
)

type knowledge uint8

const (
	open      knowledge = iota // not run, or in flight
	doubted                    // somebody was told that nobody knows
	completed                  // somebody was told how it ended, and that this is recorded
)

var paymentModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(paymentInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return paymentState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in := state.(paymentState), input.(paymentInput)
		if in.made != "" {
			if s.made != "" {
				return false, s
			}
			s.made = in.made
			return true, s
		}
		switch o := output.(told); o.status {
		case 201:
			if o.id == "" || o.id != s.made || o.outcome == "executed" && s.led {
				return false, s
			}
			s.led = s.led || o.outcome == "executed"
			if o.recorded {
				s.known = completed
			}
			return true, s
		case 409: // in flight
			return s.known != completed, s
		case 424:
			if s.known == completed {
				return false, s
			}
			s.known = doubted
			return true, s
		}
		return false, s
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		if in := input.(paymentInput); in.made != "" {
			return "made " + in.made
		}
		o := output.(told)
		return fmt.Sprintf("%d %s %s recorded %t", o.status, o.outcome, o.id, o.recorded)
	},
}

// The model refuses what must not be.
func TestWritesHistoryModel(t *testing.T) {
	t.Parallel()
	make1, make2 := paymentInput{"k", "1"}, paymentInput{"k", "2"}
	ask := paymentInput{key: "k"}
	ok := func(id, outcome string) told { return told{status: 201, id: id, outcome: outcome, recorded: true} }
	lost := ok("1", "executed")
	lost.recorded = false
	type step struct {
		in  paymentInput
		out told
	}
	for name, c := range map[string]struct {
		steps []step
		fine  bool
	}{
		"executed, replayed":            {[]step{{make1, told{}}, {ask, ok("1", "executed")}, {ask, ok("1", "replayed")}}, true},
		"in flight, then unknown, late": {[]step{{make1, told{}}, {ask, told{status: 409}}, {ask, told{status: 424}}, {ask, ok("1", "replayed")}}, true},
		"not recorded yet":              {[]step{{make1, told{}}, {ask, lost}, {ask, told{status: 424}}, {ask, ok("1", "replayed")}}, true},
		"made twice":                    {[]step{{make1, told{}}, {make2, told{}}}, false},
		"told before it was made":       {[]step{{ask, ok("1", "executed")}, {make1, told{}}}, false},
		"another's answer":              {[]step{{make1, told{}}, {ask, ok("2", "executed")}}, false},
		"executed twice":                {[]step{{make1, told{}}, {ask, ok("1", "executed")}, {ask, ok("1", "executed")}}, false},
		"forgotten":                     {[]step{{make1, told{}}, {ask, ok("1", "executed")}, {ask, told{status: 424}}}, false},
		"in flight again":               {[]step{{make1, told{}}, {ask, ok("1", "executed")}, {ask, told{status: 409}}}, false},
	} {
		var history []porcupine.Operation
		for i, s := range c.steps {
			history = append(history, porcupine.Operation{Input: s.in, Output: s.out, Call: int64(2 * i), Return: int64(2*i + 1)})
		}
		if got := porcupine.CheckOperations(paymentModel, history); got != c.fine {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Three clients that ask two nodes for the same payments, while the nodes are
// killed or stand still past their leases, the store stands still or is
// restarted, and the upstream is slow or breaks off: no payment is made twice,
// and what callers were told is one history of each.
func TestNodesWritesHistory(t *testing.T) {
	t.Parallel()
	const (
		// A node that follows hears of the end a moment after it, or when it may
		// go on: what a 409 says may be that old. It has nobody run anything.
		stale    = 3 * time.Second
		clients  = 3
		short    = time.Second // the lease: it lapses often
		lanes    = 4           // requests of one client at once
		patience = 2 * time.Second
		every    = 200 * time.Millisecond // a new key
		recent   = 10                     // so many are asked for
	)
	seed := seeded(t)
	payee := newPayee(seed, func(r *rand.Rand) fault {
		f := fault{}
		switch p := r.IntN(100); {
		case p < 55:
			f.takes = time.Duration(r.IntN(20)) * time.Millisecond
		case p < 80:
			f.takes = time.Duration(300+r.IntN(500)) * time.Millisecond
		default:
			f.takes = time.Duration(1200+r.IntN(1300)) * time.Millisecond
		}
		switch p := r.IntN(100); {
		case p < 5:
			f.after = up.RST
		case p < 8:
			f.before = up.RST
		case p < 11:
			f.before = up.Fail(503, "not now")
		}
		return f
	})
	u := up.New(t)
	u.Choose(payee.answer)
	server := redistest.Start(t, durable...)
	a, b := pair(t, u, server.URL(), harness.Config{"store.lease": short.String()}, paying(u, harness.Map{
		"not_executed": []any{503},
		"policy": harness.Map{
			"timeouts": harness.Map{"first_byte": "1500ms"},
			"breaker":  harness.Map{"enabled": false},
		},
	}))
	nodes := []*harness.Gateway{a, b}

	var (
		mu      sync.Mutex
		history []porcupine.Operation
		seen    = map[string]bool{}
		count   = map[string]int{}
	)
	ask := func(client int, who *customer, g *harness.Gateway, key string, lines ...string) told {
		call := time.Since(payee.begun)
		o, err := who.pay(g, key, lines...)
		end := time.Since(payee.begun)
		if err != nil {
			o = told{}
		}
		if o.status == 409 {
			call -= stale
		}
		mu.Lock()
		defer mu.Unlock()
		seen[key] = true
		count[fmt.Sprint(o.status, " ", o.outcome)]++
		switch o.status {
		case 0, 503: // which say nothing of the payment
			return o
		case 201, 409, 424:
		default:
			t.Errorf("%s: %d %s", key, o.status, o.body)
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: paymentInput{key: key}, Output: o, Call: int64(call), Return: int64(end)})
		return o
	}

	ctx, stop := context.WithTimeout(t.Context(), *writesFor)
	defer stop()
	var wg sync.WaitGroup
	for client := range clients {
		who := newCustomer(t, patience)
		for lane := range lanes {
			wg.Go(func() {
				r := chances(seed, fmt.Sprint("client ", client), lane)
				for ctx.Err() == nil {
					// Of the latest, and of those whose leases may lapse about now. Of
					// every other one nobody waits for a call in flight, so that the
					// first to find out is who claims.
					n := max(0, int(time.Since(payee.begun)/every)-r.IntN(recent))
					key, lines := fmt.Sprint("key-", n), []string{noWait}
					if n%2 == 0 {
						lines = [][]string{nil, {noWait}, {"Prefer: wait=1"}}[r.IntN(3)]
					}
					ask(client*lanes+lane, who, nodes[r.IntN(2)], key, lines...)
					<-time.After(time.Duration(r.IntN(60)) * time.Millisecond)
				}
			})
		}
	}
	disturb(ctx, chances(seed, "faults", 0), server, short, nodes...)
	wg.Wait()
	payee.kindly()
	// What is under way has its end, and the leases of the dead lapse.
	<-time.After(short + 2500*time.Millisecond)

	// Each key has one answer from now on, which both nodes give.
	unknowns, who := map[string]string{}, newCustomer(t, 20*time.Second)
	for key := range seen {
		var last told
		for i, g := range nodes {
			var o told
			harness.Eventually(t, 15*time.Second, "the nodes answer", func() bool {
				o = ask(clients*lanes, who, g, key)
				return o.status == 201 && o.recorded || o.status == 424
			})
			if i > 0 && (o.status != last.status || o.id != last.id) {
				t.Errorf("%s: one node says %d %q, the other %d %q", key, last.status, last.id, o.status, o.id)
			}
			last = o
		}
		if last.status == 424 {
			unknowns[last.record] = key
		}
	}
	payee.wantOnce(t)
	for key, all := range payee.payments() {
		for _, p := range all {
			history = append(history, porcupine.Operation{ClientId: clients*lanes + 1, Input: paymentInput{key, p.id}, Output: told{}, Call: int64(p.from), Return: int64(p.to)})
		}
	}
	for _, g := range nodes {
		wantUnknowns(t, g, unknowns)
	}
	t.Logf("%d payments, %.1f %% of them unknown in the end; the answers: %v", len(seen), 100*float64(len(unknowns))/float64(len(seen)), count)
	switch result, info := porcupine.CheckOperationsVerbose(paymentModel, history, time.Minute); result {
	case porcupine.Illegal:
		t.Errorf("%d answers are not linearizable", len(history))
		for _, part := range paymentModel.Partition(history) {
			if porcupine.CheckOperationsTimeout(paymentModel, part, 5*time.Second) != porcupine.Ok {
				for _, op := range part {
					t.Logf("%s: client %d, %v to %v: %s", op.Input.(paymentInput).key, op.ClientId, time.Duration(op.Call), time.Duration(op.Return), paymentModel.DescribeOperation(op.Input, op.Output))
				}
			}
		}
	case porcupine.Unknown:
		t.Errorf("the check of %d answers did not end: %v", len(history), info)
	}
}

// disturb kills nodes, lets them or the store stand still, and restarts the
// store, until ctx ends. Then all are there.
func disturb(ctx context.Context, r *rand.Rand, server *redistest.Server, lease time.Duration, nodes ...*harness.Gateway) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	ms := func(from, to int) time.Duration { return time.Duration(from+r.IntN(to-from)) * time.Millisecond }
	for {
		pause(ms(200, 1500))
		if ctx.Err() != nil {
			return
		}
		g := nodes[r.IntN(len(nodes))]
		switch p := r.IntN(100); {
		case p < 40:
			g.Kill9()
			pause(ms(0, 1500))
			g.Restart()
		case p < 80 || server == nil:
			g.Pause()
			pause(lease/4 + ms(0, int(2*lease/time.Millisecond)))
			g.Continue()
		case p < 90:
			server.Pause()
			pause(ms(100, 1500))
			server.Continue()
		default:
			server.Restart()
		}
	}
}

// wantUnknowns says that these records, and no others, should be listed as
// unknown.
func wantUnknowns(t *testing.T, g *harness.Gateway, want map[string]string) {
	t.Helper()
	listed := map[string]bool{}
	for _, r := range recordsIn(t, g, "unknown", 50) {
		key := r.Get("key").String()
		listed[key] = true
		if want[key] == "" {
			t.Errorf("listed as unknown is %s", r.Raw)
		}
	}
	for record, key := range want {
		if !listed[record] {
			t.Errorf("the unknown %s (%s) is not listed", key, record)
		}
	}
}
