package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Expect is what is expected of answers. The zero value expects nothing.
type Expect struct {
	Status, Outcome, Reason *Words
	Attempts, Elapsed       *Window
	Headers                 []HeaderPart // in the order of the file
	Contains                []string     // parts of the body
	JSON                    []Member     // of the body
	// What the mock counted; of a step or of all.
	Upstream   *Window // calls that reached it
	Executions *Window // writes that had their effect
	Resources  *Window // what was made there
}

// Words is what a word of an answer may be: one of Any, or over all answers of
// the step so many of each in Counts.
type Words struct {
	Any    []string
	Counts map[string]int
}

// Window is a range, its ends included.
type Window struct {
	Min, Max int64 // Max < 0: without an end
}

// HeaderPart is what one header must be.
type HeaderPart struct {
	Name     string
	Exactly  *string
	Contains []string
	Number   *Window
	Absent   bool
}

// Member is what one JSON pointer must lead to.
type Member struct {
	Pointer string
	Value   []byte // JSON
}

// verdict is what came of expectations.
type verdict struct {
	checked   int      // so many were
	failed    []string // what was expected, and what was seen
	unchecked []string // why something was not
}

// judge compares answers with what is expected of them. saw is what the mock
// counted meanwhile; nil: nobody counted.
func (e *Expect) judge(answers []*answer, saw *counts) (v verdict) {
	v.words("status", e.Status, answers, func(a *answer) string { return a.status })
	v.words("outcome", e.Outcome, answers, func(a *answer) string { return a.header.Get("Oncegate-Outcome") })
	v.words("reason", e.Reason, answers, func(a *answer) string { return a.header.Get("Oncegate-Reason") })
	if w := e.Attempts; w != nil {
		v.each("attempts", answers, func(a *answer) (string, string, bool) {
			n := a.attempts()
			return w.show(whole), whole(n), w.holds(n)
		})
	}
	if w := e.Elapsed; w != nil {
		v.each("elapsed", answers, func(a *answer) (string, string, bool) {
			return w.show(seconds), seconds(int64(a.elapsed)), w.holds(int64(a.elapsed))
		})
	}
	for _, h := range e.Headers {
		v.each(h.Name, answers, func(a *answer) (string, string, bool) { return h.compare(a) })
	}
	for _, part := range e.Contains {
		v.each("body", answers, func(a *answer) (string, string, bool) {
			return "a part " + strconv.Quote(part), short(a.body), strings.Contains(a.body, part)
		})
	}
	for _, m := range e.JSON {
		v.each("body "+m.Pointer, answers, func(a *answer) (string, string, bool) {
			saw, ok := find([]byte(a.body), m.Pointer)
			if !ok {
				return string(m.Value), "nothing there in " + short(a.body), false
			}
			return string(m.Value), short(string(saw)), sameJSON(saw, m.Value)
		})
	}
	if saw == nil {
		v.uncounted(e)
		return v
	}
	v.count("upstream", e.Upstream, saw.calls, "calls")
	v.count("executions", e.Executions, saw.executions, "")
	v.count("resources", e.Resources, saw.resources, "")
	return v
}

// uncounted notes what nobody can tell without a mock to ask.
func (v *verdict) uncounted(e *Expect) {
	var what []string
	for _, c := range []struct {
		name string
		want *Window
	}{{"upstream", e.Upstream}, {"executions", e.Executions}, {"resources", e.Resources}} {
		if c.want != nil {
			what = append(what, c.name)
		}
	}
	if len(what) > 0 {
		v.unchecked = append(v.unchecked, strings.Join(what, ", ")+": nobody counts the calls: mock_url says where the mock listens")
	}
}

func (v *verdict) count(what string, w *Window, saw int64, unit string) {
	if w == nil {
		return
	}
	if v.checked++; !w.holds(saw) {
		v.fail(what, w.show(whole), strings.TrimSpace(whole(saw)+" "+unit), 1, 1)
	}
}

func (v *verdict) add(w verdict) {
	v.checked += w.checked
	v.failed = append(v.failed, w.failed...)
	v.unchecked = append(v.unchecked, w.unchecked...)
}

func (v *verdict) fail(what, want, saw string, times, of int) {
	text := fmt.Sprintf("%s: expected %s, saw %s", what, want, saw)
	if of > 1 {
		text += fmt.Sprintf(" (%d of %d)", times, of)
	}
	v.failed = append(v.failed, text)
}

// each compares every answer. Those that fail alike are told once.
func (v *verdict) each(what string, answers []*answer, compare func(*answer) (want, saw string, ok bool)) {
	v.checked++
	type pair struct{ want, saw string }
	var order []pair
	times := map[pair]int{}
	for _, a := range answers {
		want, saw, ok := compare(a)
		if p := (pair{want, saw}); !ok {
			if times[p]++; times[p] == 1 {
				order = append(order, p)
			}
		}
	}
	const most = 3
	for i, p := range order {
		if i == most {
			v.failed = append(v.failed, fmt.Sprintf("%s: and %d more", what, len(order)-most))
			break
		}
		v.fail(what, p.want, p.saw, times[p], len(answers))
	}
}

func (v *verdict) words(what string, w *Words, answers []*answer, of func(*answer) string) {
	if w == nil {
		return
	}
	if w.Counts == nil {
		v.each(what, answers, func(a *answer) (string, string, bool) {
			saw := of(a)
			if slices.Contains(w.Any, saw) {
				return "", "", true
			}
			want := make([]string, len(w.Any))
			for i, x := range w.Any {
				want[i] = cmp.Or(x, "none")
			}
			return strings.Join(want, " or "), cmp.Or(saw, "none") + a.told(), false
		})
		return
	}
	v.checked++
	saw := map[string]int{}
	for _, a := range answers {
		saw[of(a)]++
	}
	want := maps.Clone(w.Counts)
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(saw, want) {
		v.fail(what, tallied(w.Counts), tallied(saw), 1, 1)
	}
}

func tallied(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], cmp.Or(k, "none")))
	}
	return strings.Join(parts, ", ")
}

func (w *Window) holds(n int64) bool { return n >= w.Min && (w.Max < 0 || n <= w.Max) }

func (w *Window) show(unit func(int64) string) string {
	switch {
	case w.Min == w.Max:
		return unit(w.Min)
	case w.Max < 0:
		return unit(w.Min) + " or more"
	}
	return unit(w.Min) + " to " + unit(w.Max)
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

func seconds(n int64) string { return time.Duration(n).Round(time.Millisecond).String() }

// compare says what was expected of a header and what was seen.
func (h *HeaderPart) compare(a *answer) (want, saw string, ok bool) {
	lines := a.header.Values(h.Name)
	value := strings.Join(lines, ", ")
	saw = strconv.Quote(value)
	if len(lines) == 0 {
		saw = "no such header" + a.told()
	}
	switch {
	case h.Absent:
		return "no such header", saw, len(lines) == 0
	case h.Exactly != nil:
		return strconv.Quote(*h.Exactly), saw, len(lines) > 0 && value == *h.Exactly
	case h.Number != nil:
		n, err := strconv.ParseInt(value, 10, 64)
		return h.Number.show(whole), saw, err == nil && h.Number.holds(n)
	}
	for _, part := range h.Contains {
		if !strings.Contains(value, part) {
			return "a part " + strconv.Quote(part), saw, false
		}
	}
	return "", saw, len(lines) > 0
}

// find follows a JSON pointer (RFC 6901).
func find(doc []byte, pointer string) (json.RawMessage, bool) {
	at := json.RawMessage(doc)
	if !json.Valid(at) {
		return nil, false
	}
	if pointer == "" {
		return at, true
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var list []json.RawMessage
		var object map[string]json.RawMessage
		switch {
		case json.Unmarshal(at, &list) == nil:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(list) {
				return nil, false
			}
			at = list[i]
		case json.Unmarshal(at, &object) == nil:
			v, ok := object[token]
			if !ok {
				return nil, false
			}
			at = v
		default:
			return nil, false
		}
	}
	return at, true
}

// sameJSON says whether two texts are the same value. Numbers are compared as
// they are written, and where that differs as numbers.
func sameJSON(a, b []byte) bool {
	var x, y any
	for _, side := range []struct {
		text []byte
		into *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(strings.NewReader(string(side.text)))
		d.UseNumber()
		if d.Decode(side.into) != nil {
			return false
		}
	}
	return same(x, y)
}

func same(x, y any) bool {
	switch a := x.(type) {
	case json.Number:
		b, ok := y.(json.Number)
		if !ok || a == b {
			return ok
		}
		f, bad := a.Float64()
		g, worse := b.Float64()
		return bad == nil && worse == nil && f == g && strings.ContainsAny(string(a+b), ".eE")
	case map[string]any:
		b, ok := y.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	case []any:
		b, ok := y.([]any)
		return ok && slices.EqualFunc(a, b, same)
	}
	return x == y
}
