package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
)

// packed is a notice as append.lua makes it.
func packed(length int, texts ...string) string {
	var sizes, bytes []string
	for _, s := range texts {
		frame := string(cache.EncodeFrames(frames(s)))
		sizes, bytes = append(sizes, fmt.Sprint(len(frame))), append(bytes, frame)
	}
	return fmt.Sprintf("%d %s:%s", length, strings.Join(sizes, ","), strings.Join(bytes, ""))
}

func TestNoticesBringFrames(t *testing.T) {
	type step struct {
		tell, do string // a notice; or confirm, asked, doubt, lost
		from     int    // where the reader is then
		want     string // what is here for it; "?": it must ask, "": it waits
	}
	for name, steps := range map[string][]step{
		"in order": {{do: "confirm", want: "?"}, {do: "asked", want: ""},
			{tell: packed(1, "a"), want: "a"}, {tell: packed(3, "b", "c"), from: 1, want: "bc"}, {from: 3, want: ""}},
		"together": {{do: "confirm", want: "?"}, {do: "asked"}, {tell: packed(1, "a"), from: -1}, {tell: packed(2, "b"), want: "ab"}},
		"read already": {{do: "confirm", want: "?"}, {do: "asked", from: 2, want: ""},
			{tell: packed(1, "a"), from: 2, want: ""}, {tell: packed(3, "b", "c"), from: 2, want: "c"}},
		"not confirmed":                {{do: "asked", want: "?"}, {tell: packed(1, "a"), want: "?"}},
		"a gap":                        {{do: "confirm", want: "?"}, {do: "asked"}, {tell: packed(2, "b"), want: "?"}, {do: "asked", from: 2, want: ""}, {tell: packed(3, "c"), from: 2, want: "c"}},
		"length only":                  {{do: "confirm", want: "?"}, {do: "asked"}, {tell: "5", want: "?"}},
		"the end, while it is asked":   {{do: "confirm", want: "?"}, {tell: "end", from: -1}, {do: "asked", want: "?"}},
		"confirmed, while it is asked": {{want: "?"}, {do: "confirm", from: -1}, {do: "asked", want: "?"}, {do: "asked", want: ""}},
		"the end":                      {{do: "confirm", want: "?"}, {do: "asked"}, {tell: packed(1, "a"), from: -1}, {tell: "end", want: "?"}},
		"damaged":                      {{do: "confirm", want: "?"}, {do: "asked"}, {tell: "1 999:x", want: "?"}},
		"damaged size":                 {{do: "confirm", want: "?"}, {do: "asked"}, {tell: "1 -1:x", want: "?"}},
		"lost in between":              {{do: "confirm", want: "?"}, {do: "asked"}, {tell: packed(1, "a"), from: -1}, {do: "lost", want: "?"}, {do: "confirm", want: "?"}, {tell: packed(3, "c"), want: "?"}},
		"a reader behind":              {{do: "confirm", want: "?"}, {do: "asked", from: 2, want: ""}, {tell: packed(3, "c"), from: 1, want: "?"}, {from: 2, want: "c"}},
		"asked, told or not":           {{do: "confirm", want: "?"}, {do: "asked"}, {do: "doubt", want: "?"}, {do: "asked", want: ""}},
	} {
		f := &follow{told: make(chan struct{})}
		doubts := 0
		for n, s := range steps {
			switch s.do {
			case "confirm":
				f.confirm()
			case "asked":
				f.asked(s.from, doubts, time.Minute)
			case "doubt":
				f.doubt()
			case "lost":
				f.lost()
			default:
				if s.tell != "" {
					f.tell(s.tell)
				}
			}
			if s.from < 0 {
				continue
			}
			var ask bool
			var got []cache.Frame
			got, _, ask, doubts = f.next(s.from)
			said := text(got)
			if ask {
				said = "?"
			}
			if said != s.want {
				t.Errorf("%s, step %d: %q, want %q", name, n, said, s.want)
			}
		}
	}
}

// What a reader that does not come leaves here is bounded.
func TestNoticesPileUp(t *testing.T) {
	f := &follow{told: make(chan struct{})}
	f.confirm()
	f.asked(0, f.doubts, time.Minute)
	big := strings.Repeat("x", 30<<10)
	for n := range 20 {
		f.tell(packed(n+1, big))
		if f.bytes > followBytes+32<<10 {
			t.Fatalf("%d bytes after %d notices", f.bytes, n+1)
		}
	}
	if _, _, ask, _ := f.next(0); !ask {
		t.Error("the reader need not ask for what is gone")
	}
}
