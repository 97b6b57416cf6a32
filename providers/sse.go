package providers

import "bytes"

// splitter finds where events end in a stream that grows, by the rules of
// WHATWG's HTML, section 9.2.6: a line ends with CR LF, LF or CR, an event
// with an empty line. It looks at each byte a bounded number of times,
// however the stream was cut.
//
// An event that ends with a CR ends there: waiting for an LF that may not
// come would hold it back. An LF that follows belongs to the next event's
// bytes.
type splitter struct {
	at     int  // looked at up to here
	inLine bool // the current line has a byte before at
	cr     bool // the byte before at is a CR: an LF here goes with it
	lf     int  // no LF lies in [at, lf)
}

// next gives the end of the first event in b that ends at or after s.at, or
// -1 where more bytes are needed.
func (s *splitter) next(b []byte) int {
	for s.at < len(b) {
		c := b[s.at]
		if s.cr {
			s.cr = false
			if c == '\n' {
				s.at++
				continue
			}
		}
		if !s.inLine && (c == '\n' || c == '\r') {
			s.at++
			if c == '\r' {
				if s.at < len(b) && b[s.at] == '\n' {
					s.at++
				} else {
					s.cr = s.at == len(b)
				}
			}
			return s.at
		}
		end := s.lineEnd(b)
		if end < 0 {
			s.at, s.inLine = len(b), true
			return -1
		}
		s.at, s.inLine, s.cr = end+1, false, b[end] == '\r'
	}
	return -1
}

// lineEnd is the place of the first CR or LF from s.at on, or -1.
func (s *splitter) lineEnd(b []byte) int {
	if s.lf < s.at {
		s.lf = s.at
	}
	lf := len(b)
	if s.lf < len(b) {
		if i := bytes.IndexByte(b[s.lf:], '\n'); i >= 0 {
			lf = s.lf + i
		}
		s.lf = lf
	}
	if cr := bytes.IndexByte(b[s.at:lf], '\r'); cr >= 0 {
		return s.at + cr
	}
	if lf < len(b) {
		return lf
	}
	return -1
}

// shift says that n bytes were taken from the front.
func (s *splitter) shift(n int) {
	s.at -= n
	s.lf = max(0, s.lf-n)
}

// event is what a parser makes of one event's bytes.
type event struct {
	name []byte // the last event field; nil where there is none
	data []byte // the data lines, joined by LF
	has  bool   // there was a data line
}

// parseEvent reads the fields of one event. The results are part of raw, or,
// where data has several lines, of scratch, which is reused. A BOM at the
// stream's start must have been taken off.
func parseEvent(raw []byte, scratch *[]byte) event {
	var e event
	for len(raw) > 0 {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line = raw[:i]
		}
		rest := raw[min(len(raw), len(line)+1):]
		if i := bytes.IndexByte(line, '\r'); i >= 0 {
			rest = raw[i+1:]
			if len(rest) > 0 && rest[0] == '\n' {
				rest = rest[1:]
			}
			line = line[:i]
		}
		raw = rest

		field, value := line, []byte(nil)
		if before, after, ok := bytes.Cut(line, []byte{':'}); ok {
			field, value = before, after
			if len(value) > 0 && value[0] == ' ' {
				value = value[1:]
			}
		}
		switch string(field) {
		case "data":
			switch {
			case !e.has:
				e.data, e.has = value, true
			default:
				if len(*scratch) == 0 {
					*scratch = append((*scratch)[:0], e.data...)
				}
				*scratch = append(append(*scratch, '\n'), value...)
				e.data = *scratch
			}
		case "event":
			e.name = value
		}
	}
	*scratch = (*scratch)[:0]
	return e
}

var bom = []byte("\xef\xbb\xbf")
