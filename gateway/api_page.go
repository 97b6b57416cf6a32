package gateway

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"oncegate/cache"
)

// readPage reads limit and cursor.
func readPage(ask url.Values) (q listQuery, _ *refusal) {
	q.limit, q.cursor = usualPage, ask.Get("cursor")
	if v, ok := ask["limit"]; ok {
		n, err := strconv.Atoi(v[0])
		if err != nil || n < 1 || n > mostPage {
			return q, badBody("limit is a number of entries from 1 to "+strconv.Itoa(mostPage), "limit")
		}
		q.limit = n
	}
	return q, nil
}

// pageOf is a page of a list that is in memory, in the order of its names, and
// the cursor of the page after it. The cursor is the last name that was given,
// so that entries which come and go move no others. The error is
// cache.ErrCursor.
func pageOf[T any](list []T, q listQuery, name func(T) string) (page []T, next string, _ error) {
	begin := 0
	if q.cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.cursor)
		if err != nil {
			return nil, "", cache.ErrCursor
		}
		var found bool
		if begin, found = slices.BinarySearchFunc(list, string(b), func(e T, last string) int { return strings.Compare(name(e), last) }); found {
			begin++
		}
	}
	end := min(begin+q.limit, len(list))
	if page = list[begin:end]; end < len(list) {
		next = base64.RawURLEncoding.EncodeToString([]byte(name(list[end-1])))
	}
	return page, next, nil
}
