package harness

import "strings"

// Event is one server-sent event.
type Event struct{ Type, Data, ID string }

// Decoder reads server-sent events by the WHATWG's rules: lines end by LF, CR
// or CRLF, a byte order mark is skipped, comments and unknown fields are
// ignored, an event without data is none.
type Decoder struct {
	begun    bool
	skipLF   bool // the last line ended by CR: an LF next belongs to it
	line     strings.Builder
	typ      string
	data     []string
	id       string
	Comments int // comment lines so far
}

// Feed takes the next bytes and gives the events that they complete.
func (d *Decoder) Feed(p string) []Event {
	if !d.begun && p != "" {
		d.begun = true
		p = strings.TrimPrefix(p, "\ufeff")
	}
	var out []Event
	for p != "" {
		if d.skipLF {
			d.skipLF = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := strings.IndexAny(p, "\r\n")
		if end < 0 {
			d.line.WriteString(p)
			break
		}
		d.line.WriteString(p[:end])
		d.skipLF = p[end] == '\r'
		p = p[end+1:]
		line := d.line.String()
		d.line.Reset()
		if e, ok := d.take(line); ok {
			out = append(out, e)
		}
	}
	return out
}

func (d *Decoder) take(line string) (Event, bool) {
	if line == "" {
		typ, data := d.typ, d.data
		d.typ, d.data = "", nil
		if data == nil {
			return Event{}, false
		}
		return Event{Type: typ, Data: strings.Join(data, "\n"), ID: d.id}, true
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "":
		d.Comments++
	case "event":
		d.typ = value
	case "data":
		d.data = append(d.data, value)
	case "id":
		d.id = value
	}
	return Event{}, false
}

// Decode gives all events of a whole body.
func Decode(body string) []Event {
	var d Decoder
	return d.Feed(body)
}

// Data gives the data of all events of a whole body.
func Data(body string) []string {
	var out []string
	for _, e := range Decode(body) {
		out = append(out, e.Data)
	}
	return out
}
