package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// An upstream may give any id. Its link leads to the request, also when it is
// opened by itself, and never to another page.
func TestIdsThatNoPathCarries(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	for i, c := range []struct{ id, want string }{
		{".", "/requests?q=."}, {"..", "/requests?q=.."}, {"//", "/requests?q=%2F%2F"}, {"a/../b", "/requests?q=a%2F..%2Fb"}, {"a//b", "/requests?q=a%2F%2Fb"},
		{"a/b", "/requests/a%2Fb?place=new"}, {"...", "/requests/...?place=new"}, {"%2e", "/requests/%252e?place=new"}, {"?#", "/requests/%3F%23?place=new"},
	} {
		p.visit("/requests")
		p.until(`document.querySelector(".dot.on")`)
		r := f.request(0)
		r["place"], r["at"], r["id"], r["record"] = "new", f.now.Format(time.RFC3339), c.id, ""
		b, _ := json.Marshal(r)
		f.events <- fmt.Sprintf("id: %d\nevent: request\ndata: %s\n\n", i, b)
		p.until(`document.querySelectorAll("tr.row").length === 51`)
		link := p.eval(`document.querySelector("tr.row a").href.slice(location.origin.length)`)
		if link != c.want {
			t.Errorf("%q leads to %s, not %s", c.id, link, c.want)
		}
		p.visit(link)
		if got := p.text("h1"); got == "" || got == "Overview" || got == "There is nothing here" {
			t.Errorf("%q leads to a page that says %q", c.id, got)
		}
	}
}
