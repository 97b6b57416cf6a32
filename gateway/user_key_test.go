package gateway

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"oncegate/cache"
)

// keyWithout is the key that a body gets where these pointers are ignored.
func keyWithout(t *testing.T, ignore []string, body string) cache.Key {
	t.Helper()
	g := &Gateway{documents: newDocuments()}
	setDefaults(&g.opt)
	g.opt.Dedupe.Ignore = ignore
	c := &call{op: &operations[0], who: principal{secret: []byte("s")}}
	c.up.Body = []byte(body)
	d, refused := g.document(c)
	if refused != nil {
		t.Fatalf("%s: %s", body, refused.message)
	}
	c.body = d
	g.setKey(c, http.Header{})
	return c.key
}

// On whose behalf a body says that it is enters the key as a part of the body
// and in no other way: what is ignored there counts nowhere.
func TestUsersInABodyAreIgnoredWithIt(t *testing.T) {
	for _, c := range []struct{ ignore, a, b string }{
		{"/user", `{"model":"m","user":"a"}`, `{"model":"m","user":"b"}`},
		{"/user", `{"model":"m","user":"a"}`, `{"model":"m"}`},
		{"/safety_identifier", `{"model":"m","safety_identifier":"a"}`, `{"safety_identifier":"b","model":"m"}`},
		{"/metadata/user_id", `{"model":"m","metadata":{"user_id":"a","x":1}}`, `{"model":"m","metadata":{"user_id":"b","x":1}}`},
		{"/metadata", `{"model":"m","metadata":{"user_id":"a"}}`, `{"model":"m","metadata":{"user_id":"b"}}`},
	} {
		if keyWithout(t, []string{c.ignore}, c.a) != keyWithout(t, []string{c.ignore}, c.b) {
			t.Errorf("without %s, %s and %s are two calls", c.ignore, c.a, c.b)
		}
		if keyWithout(t, nil, c.a) == keyWithout(t, nil, c.b) {
			t.Errorf("%s and %s are one call though nothing is ignored", c.a, c.b)
		}
	}
	// Only the one that is ignored.
	a, b := `{"model":"m","user":"a","safety_identifier":"x"}`, `{"model":"m","user":"a","safety_identifier":"y"}`
	if keyWithout(t, []string{"/user"}, a) == keyWithout(t, []string{"/user"}, b) {
		t.Error("two safety identifiers are one call")
	}
}

// Where a body names several users, none of them counts by its place.
func TestUsersInABodyInAnyOrder(t *testing.T) {
	for _, orders := range [][]string{
		{`{"model":"m","metadata":{"user_id":"a"},"user":"b"}`, `{"user":"b","metadata":{"user_id":"a"},"model":"m"}`},
		{`{"metadata":{"user_id":"a"},"safety_identifier":"c","user":"b","model":"m"}`, `{"model":"m","user":"b","safety_identifier":"c","metadata":{"user_id":"a"}}`},
	} {
		if keyOf(t, orders[0]) != keyOf(t, orders[1]) {
			t.Errorf("%s and %s are two calls", orders[0], orders[1])
		}
		as := func(body string) string {
			return testCall(t, body, nil).body.user()
		}
		if as(orders[0]) != as(orders[1]) {
			t.Errorf("%s is logged for %q, %s for %q", orders[0], as(orders[0]), orders[1], as(orders[1]))
		}
	}
	if keyOf(t, `{"model":"m","metadata":{"user_id":"a"},"user":"b"}`) == keyOf(t, `{"model":"m","metadata":{"user_id":"b"},"user":"a"}`) {
		t.Error("swapped users are one call")
	}
}

// What is remembered of bodies that were seen is no part of them: clients say
// how large those are.
func TestLittleIsRememberedOfABody(t *testing.T) {
	g := &Gateway{documents: newDocuments()}
	long := strings.Repeat("x", 1<<20)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range 8 {
		for _, body := range []string{
			fmt.Sprintf(`{"model":"m","user":"%d%s"}`, n, long),
			fmt.Sprintf(`{"model":"m","safety_identifier":"%d%s"}`, n, long),
			fmt.Sprintf(`{"model":"m","metadata":{"user_id":"%d","x":"%s"}}`, n, long),
		} {
			c := &call{op: &operations[0]}
			c.up.Body = []byte(body)
			if d, refused := g.document(c); refused != nil || len(d.user()) == 0 || len(d.user()) > maxName {
				t.Fatalf("%v, a user of %d bytes", refused, len(d.user()))
			}
		}
	}
	if after := heap(); after > before+6<<20 {
		t.Errorf("%d MiB are held for 24 bodies", (after-before)>>20)
	}
	runtime.KeepAlive(g)
}
