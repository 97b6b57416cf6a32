package providers

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// parsed is what a splitter and parser make of a stream that came in the
// given parts.
func parsed(parts ...[]byte) (events []string, raw []byte) {
	var (
		s       splitter
		buf     []byte
		scratch []byte
		from    int
		first   = true
	)
	for _, p := range parts {
		buf = append(buf, p...)
		for {
			end := s.next(buf)
			if end < 0 {
				break
			}
			one := buf[from:end]
			raw = append(raw, one...)
			if first {
				one = bytes.TrimPrefix(one, bom)
				first = false
			}
			if e := parseEvent(one, &scratch); e.has {
				events = append(events, fmt.Sprintf("%q %q", e.name, e.data))
			}
			from = end
		}
	}
	return events, append(raw, buf[from:]...)
}

func TestSplitterFollowsTheRules(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"LF":                     {"data: a\n\ndata: b\n\n", []string{`"" "a"`, `"" "b"`}},
		"CRLF":                   {"data: a\r\n\r\ndata: b\r\n\r\n", []string{`"" "a"`, `"" "b"`}},
		"CR":                     {"data: a\r\rdata: b\r\r", []string{`"" "a"`, `"" "b"`}},
		"mixed":                  {"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", []string{`"" "a"`, `"" "b"`, `"" "c"`}},
		"BOM":                    {"\xef\xbb\xbfdata: a\n\n", []string{`"" "a"`}},
		"comments":               {": x\n\n:data: y\ndata: a\n: z\n\n", []string{`"" "a"`}},
		"many data lines":        {"data: a\ndata\ndata:b\n\n", []string{`"" "a\n\nb"`}},
		"many with CRLF":         {"data: a\r\ndata: b\r\n\r\n", []string{`"" "a\nb"`}},
		"one space is taken off": {"data:  a\n\n", []string{`"" " a"`}},
		"empty data":             {"data:\n\ndata: \n\n", []string{`"" ""`, `"" ""`}},
		"event and id":           {"id: 7\nevent: e\ndata: a\nretry: 1\n\n", []string{`"e" "a"`}},
		"more empty lines":       {"\n\n\ndata: a\n\n\n\n", []string{`"" "a"`}},
		"the end is missing":     {"data: a\n\ndata: b\n", []string{`"" "a"`}},
		"unknown fields":         {"datum: x\ndata: a\n\n", []string{`"" "a"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, raw := parsed([]byte(c.in))
			if fmt.Sprint(got) != fmt.Sprint(c.want) || string(raw) != c.in {
				t.Fatalf("got %v, raw %q", got, raw)
			}
			// One byte at a time, and cut in two anywhere.
			var bytes [][]byte
			for i := range len(c.in) {
				bytes = append(bytes, []byte{c.in[i]})
				two, raw := parsed([]byte(c.in[:i]), []byte(c.in[i:]))
				if fmt.Sprint(two) != fmt.Sprint(c.want) || string(raw) != c.in {
					t.Fatalf("cut at %d: got %v, raw %q", i, two, raw)
				}
			}
			if one, raw := parsed(bytes...); fmt.Sprint(one) != fmt.Sprint(c.want) || string(raw) != c.in {
				t.Fatalf("byte by byte: got %v, raw %q", one, raw)
			}
		})
	}
}

func TestSplitterGivesAnEventWithItsLastByte(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\n\r", "data: a\r\r"} {
		var s splitter
		for i := range in {
			end := s.next([]byte(in[:i+1]))
			if (end >= 0) != (i == len(in)-1) {
				t.Fatalf("%q: after %d bytes the end is %d", in, i+1, end)
			}
		}
	}
}

// A splitter that looks at old bytes again needs seconds for this (B008, B002).
func TestSplitterDoesNotLookTwice(t *testing.T) {
	for name, in := range map[string]string{
		"one long line":  "data: " + strings.Repeat("a", 1<<20) + "\n\n",
		"many CR lines":  strings.Repeat("data: aaaaaaaa\r", 80_000) + "\r",
		"many LF lines":  strings.Repeat("data: aaaaaaaa\n", 80_000) + "\n",
		"CRs and one LF": strings.Repeat("data: aaaaaaaa\r", 80_000) + "\n",
	} {
		b := []byte(in)
		start := time.Now()
		var s splitter
		for i := 0; i < len(in); i += 7 {
			s.next(b[:min(len(in), i+7)])
			if i%7000 == 0 && time.Since(start) > 8*time.Second {
				t.Fatalf("%s: %d of %d bytes took %v", name, i, len(in), time.Since(start))
			}
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\rdata: b\r\rdata:c\n\n"), uint16(3), uint16(9))
	f.Add([]byte("\xef\xbb\xbfdata: a\ndata: b\n\nevent: e\ndata: {}\r\n\r\n\n"), uint16(1), uint16(2))
	f.Fuzz(func(t *testing.T, in []byte, a, b uint16) {
		want, raw := parsed(in)
		if !bytes.Equal(raw, in) {
			t.Fatalf("bytes changed: %q became %q", in, raw)
		}
		i := int(a) % (len(in) + 1)
		j := i + int(b)%(len(in)-i+1)
		got, raw := parsed(in[:i], in[i:j], in[j:])
		if !bytes.Equal(raw, in) {
			t.Fatalf("bytes changed: %q became %q", in, raw)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("cut at %d and %d: %v, uncut: %v", i, j, got, want)
		}
		if naive := naively(in); fmt.Sprint(naive) != fmt.Sprint(want) {
			t.Fatalf("%q: %v, by the letter: %v", in, want, naive)
		}
	})
}

// naively reads a whole stream by the letter of the rules: all line ends are
// made LF, then lines are taken one by one.
func naively(in []byte) (events []string) {
	s := strings.TrimPrefix(string(in), "\xef\xbb\xbf")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	var name string
	var data []string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				events = append(events, fmt.Sprintf("%q %q", name, strings.Join(data, "\n")))
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		}
	}
	return events
}
