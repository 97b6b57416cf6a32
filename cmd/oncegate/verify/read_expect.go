package verify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"oncegate/cmd/oncegate/config"
)

// Words that a status can be beside the numbers.
const (
	timedOut = "timeout" // the client's time was over
	broken   = "broken"  // the connection ended before the answer did
)

var outcomes = []string{"executed", "coalesced", "replayed", "bypassed", "refused", "failed", "unknown"}

// answerKeys are what can be expected of answers.
func (r *reader) answerKeys(e *Expect) []key {
	return []key{
		r.wordKey("status", &e.Status, r.status),
		r.wordKey("outcome", &e.Outcome, r.outcome),
		r.wordKey("reason", &e.Reason, r.reason),
		{"attempts", func(n ast.Node, path string) { e.Attempts = r.numbers(n, path) }},
		{"elapsed", func(n ast.Node, path string) { e.Elapsed = r.durations(n, path) }},
		{"headers", func(n ast.Node, path string) {
			r.each(n, path, nil, func(_ ast.MapKeyNode, name, full string, v ast.Node) {
				r.expected = true
				e.Headers = append(e.Headers, r.headerPart(v, full, name))
			})
		}},
		{"body", func(n ast.Node, path string) {
			r.section(n, path,
				key{"contains", func(n ast.Node, path string) {
					r.expected = true
					e.Contains = r.texts(n, path)
				}},
				key{"json", func(n ast.Node, path string) {
					r.each(n, path, nil, func(k ast.MapKeyNode, name, full string, v ast.Node) {
						if name != "" && name[0] != '/' {
							r.fault(k, full, "is not a JSON pointer", "begin it with a slash, as /choices/0/message/content")
						}
						r.expected = true
						e.JSON = append(e.JSON, Member{Pointer: name, Value: r.json(v, full)})
					})
				}},
			)
		}},
	}
}

// countKeys are what can be expected of the mock's counts.
func (r *reader) countKeys(e *Expect) []key {
	return []key{
		{"upstream", func(n ast.Node, path string) { e.Upstream = r.numbers(n, path) }},
		{"executions", func(n ast.Node, path string) { e.Executions = r.numbers(n, path) }},
		{"resources", func(n ast.Node, path string) { e.Resources = r.numbers(n, path) }},
	}
}

// wordKey reads a word, a list of those that will do, or how many of each.
func (r *reader) wordKey(name string, into **Words, check func(n ast.Node, path, word string)) key {
	return key{name, func(n ast.Node, path string) {
		r.expected = true
		w := &Words{}
		*into = w
		if m, ok := r.bare(n, path).(ast.MapNode); ok {
			w.Counts = map[string]int{}
			r.each(m.(ast.Node), path, nil, func(k ast.MapKeyNode, word, full string, v ast.Node) {
				check(k, full, word)
				w.Counts[word] = int(r.number(v, full, 0))
			})
			return
		}
		w.Any = r.texts(n, path)
		for _, word := range w.Any {
			check(n, path, word)
		}
	}}
}

func (r *reader) status(n ast.Node, path, word string) {
	if v, err := strconv.Atoi(word); err == nil && v >= 200 && v <= 999 || word == timedOut || word == broken {
		return
	}
	r.fault(n, path, strconv.Quote(word)+" is no status", "write a number from 200 on, or "+timedOut+" or "+broken)
}

func (r *reader) outcome(n ast.Node, path, word string) {
	if !slices.Contains(outcomes, word) {
		r.fault(n, path, strconv.Quote(word)+" is no outcome", config.DidYouMean(word, outcomes))
	}
}

// reason takes any word: which there are, the gateway knows. An empty one is
// the header that is not there.
func (r *reader) reason(n ast.Node, path, word string) {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		r.fault(n, path, strconv.Quote(word)+" is no reason", "write the one word of Oncegate-Reason, as twin")
	}
}

// numbers reads a number, or {min: 1, max: 3}.
func (r *reader) numbers(n ast.Node, path string) *Window {
	r.expected = true
	if _, ok := r.bare(n, path).(ast.MapNode); !ok {
		v := r.number(n, path, 0)
		return &Window{v, v}
	}
	return r.window(n, path, func(n ast.Node, path string) int64 { return r.number(n, path, 0) })
}

// durations reads {min: 1s, max: 3s}.
func (r *reader) durations(n ast.Node, path string) *Window {
	r.expected = true
	if _, ok := r.bare(n, path).(ast.MapNode); !ok {
		r.fault(n, path, "is not a window", "write {min: 1s, max: 3s}, or one of the two")
		return nil
	}
	return r.window(n, path, func(n ast.Node, path string) int64 { return int64(r.duration(n, path, 0)) })
}

func (r *reader) window(n ast.Node, path string, read func(n ast.Node, path string) int64) *Window {
	w := &Window{Max: -1}
	ends := 0
	end := func(into *int64) func(ast.Node, string) {
		return func(n ast.Node, path string) { ends++; *into = read(n, path) }
	}
	r.section(n, path, key{"min", end(&w.Min)}, key{"max", end(&w.Max)})
	if ends == 0 || w.Max >= 0 && w.Max < w.Min {
		r.fault(n, path, "holds nothing", "min must not be more than max")
	}
	return w
}

// headerPart reads a value, or a section that says what to look for.
func (r *reader) headerPart(n ast.Node, path, name string) HeaderPart {
	h := HeaderPart{Name: name}
	if _, ok := r.bare(n, path).(ast.MapNode); !ok {
		text, _ := r.text(n, path)
		h.Exactly = &text
		return h
	}
	kinds := 0
	number := func() *Window {
		if h.Number == nil {
			h.Number = &Window{Max: -1}
			kinds++
		}
		return h.Number
	}
	r.section(n, path,
		key{"contains", func(n ast.Node, path string) { kinds++; h.Contains = r.texts(n, path) }},
		key{"min", func(n ast.Node, path string) { number().Min = r.number(n, path, 0) }},
		key{"max", func(n ast.Node, path string) { number().Max = r.number(n, path, 0) }},
		key{"absent", func(n ast.Node, path string) {
			kinds++
			text, ok := r.text(n, path)
			if h.Absent = true; ok && !strings.EqualFold(text, "true") {
				r.fault(n, path, "can only be true", "leave it out for a header that may be there")
			}
		}},
	)
	if kinds != 1 {
		r.fault(n, path, "must say one thing", "write a value, {contains: a part}, {min: 1, max: 7} or {absent: true}")
	}
	if w := h.Number; w != nil && w.Max >= 0 && w.Max < w.Min {
		r.fault(n, path, "holds nothing", "min must not be more than max")
	}
	return h
}
