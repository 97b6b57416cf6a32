package providers

import (
	"unsafe"

	"github.com/tidwall/gjson"
)

// peek reads JSON in place. What it returns shares b's bytes: it must not be
// kept longer than b stays as it is.
func peek(b []byte) gjson.Result {
	if len(b) == 0 {
		return gjson.Result{}
	}
	return gjson.Parse(unsafe.String(&b[0], len(b)))
}

// isObject reports whether b is one JSON object.
func isObject(b []byte) bool {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{' && gjson.ValidBytes(b)
	}
	return false
}

// says reports whether a value holds something: not absent, null, false, "",
// [] or {}.
func says(v gjson.Result) bool {
	switch v.Type {
	case gjson.Null, gjson.False:
		return false
	case gjson.String:
		return v.Raw != `""`
	case gjson.JSON:
		some := false
		v.ForEach(func(_, _ gjson.Result) bool { some = true; return false })
		return some
	default:
		return true
	}
}
