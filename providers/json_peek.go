package providers

import (
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
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
		return c == '{' && valid(b)
	}
	return false
}

// valid reports whether b is one JSON value. gjson follows what is nested by
// recursion: a few MiB of brackets from an upstream would end the process.
func valid(b []byte) bool { return jsontext.Value(b).IsValid(lax...) }

// lax takes what upstreams really send: a name twice, or no valid UTF-8.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

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
