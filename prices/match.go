package prices

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// rules say which names a model goes by: any of them, each of which may have
// several parts that must all fit. Names are in small letters.
type rules [][]rule

// rule is one test of a name.
type rule struct {
	kind    byte // = equals, ^ begins with, $ ends with, * contains, ~ fits the pattern, ! does not
	text    string
	pattern *regexp.Regexp
}

func (rs rules) fit(name string) bool {
	for _, parts := range rs {
		all := true
		for i := range parts {
			all = all && parts[i].fits(name)
		}
		if all {
			return true
		}
	}
	return false
}

func (r *rule) fits(name string) bool {
	switch r.kind {
	case '=':
		return name == r.text
	case '^':
		return strings.HasPrefix(name, r.text)
	case '$':
		return strings.HasSuffix(name, r.text)
	case '*':
		return strings.Contains(name, r.text)
	case '~':
		return r.pattern.MatchString(name)
	default:
		return !r.pattern.MatchString(name)
	}
}

func readRules(raw []any) (rules, error) {
	var out rules
	for _, x := range raw {
		list, several := x.([]any)
		if !several {
			list = []any{x}
		}
		var parts []rule
		for _, y := range list {
			text, _ := y.(string)
			if len(text) < 2 || !strings.Contains("=^$*~!", text[:1]) {
				return nil, fmt.Errorf("%v is no rule", y)
			}
			r := rule{kind: text[0], text: text[1:]}
			if r.kind == '~' || r.kind == '!' {
				var err error
				if r.pattern, err = regexp.Compile(r.text); err != nil {
					return nil, err
				}
			}
			parts = append(parts, r)
		}
		out = append(out, parts)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no rule")
	}
	return out, nil
}

// day8 is a day at the end of a name's part, without dashes.
var day8 = regexp.MustCompile(`-20\d{6}(?:[-:]|$)`)

// dashed writes the days in a name with dashes: gpt-4o-20240806 is listed as
// gpt-4o-2024-08-06.
func dashed(name string) string {
	return day8.ReplaceAllStringFunc(name, func(s string) string {
		t, err := time.Parse("20060102", s[1:9])
		if err != nil {
			return s
		}
		return "-" + t.Format(time.DateOnly) + s[9:]
	})
}

// sameModel says whether an answer's name is the name that was asked for with
// nothing but a path before it or a day after it: models/gemini-2.5-flash,
// gpt-4.1-2025-04-14.
func sameModel(answer, asked string) bool {
	last := func(s string) string { return strings.ToLower(s[strings.LastIndexByte(s, '/')+1:]) }
	rest, ok := strings.CutPrefix(last(answer), last(asked))
	return ok && asked != "" && (rest == "" || (rest[0] == '-' || rest[0] == '@') && len(rest) > 4 && strings.Trim(rest[1:], "0123456789-") == "")
}
