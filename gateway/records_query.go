package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"oncegate/cache"
)

// How many entries a page of a list has: unless its reader says so, and at most.
const (
	usualPage = 50
	mostPage  = 200
)

// listQuery is what is asked of a list.
type listQuery struct {
	cache.Filter
	cursor string
	limit  int
}

// readList reads which page of a list is asked for, and the filters that the
// list has. What makes no sense is refused, rather than answered with a list
// that its reader takes for another.
func readList(r *http.Request, filters ...string) (q listQuery, refused *refusal) {
	known := append(slices.Clone(filters), "limit", "cursor")
	ask, refused := readQuery(r, known...)
	if refused != nil {
		return q, refused
	}
	if q, refused = readPage(ask); refused != nil {
		return q, refused
	}
	for name, values := range ask {
		v := values[0]
		switch name {
		case "state":
			for state, word := range recordStates {
				if word == v {
					q.State = state
				}
			}
			if q.State == cache.Absent {
				return q, badBody("state can be claimed, dispatched, completed, unknown or tombstone", "state")
			}
		case "tool":
			if q.Tool = v; !couldBeName(v) {
				return q, badBody("tool is the name of a tool, as in its path /tools/NAME/", "tool")
			}
		case "principal":
			if q.Principal = v; !couldBeName(v) {
				return q, badBody("principal is the name of a key of auth.keys, or what a record shows as its principal", "principal")
			}
		}
	}
	return q, nil
}

// readQuery reads a query of these parameters, each at most once.
func readQuery(r *http.Request, known ...string) (url.Values, *refusal) {
	ask, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badBody("the query can't be read: "+err.Error(), "")
	}
	for name, values := range ask {
		switch {
		case len(known) == 0:
			return nil, badBody("there are no parameters here, and "+strconv.Quote(clip([]byte(name), 50))+" is one", name)
		case !slices.Contains(known, name):
			return nil, badBody("parameters here are "+strings.Join(known, ", ")+", not "+strconv.Quote(clip([]byte(name), 50)), name)
		case len(values) > 1:
			return nil, badBody(name+" stands there twice; give it once", name)
		}
	}
	return ask, nil
}

// couldBeName says whether a text is written like the name of a tool or a key.
func couldBeName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && len(s) <= cache.MostName && strings.Trim(s, letters) == ""
}
