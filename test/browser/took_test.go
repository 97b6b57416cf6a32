package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// No minute has 60 seconds, and no hour 60 minutes. Ages pass by there all the
// time: that of a write in doubt stands at "1 h 60 min" for half a minute.
func TestLengthsOfTimeCarryOver(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/requests")
	p.until(`document.querySelector(".dot.on")`)
	for i, c := range []struct {
		ms   float64
		want string
	}{{999.7, "1 s"}, {59_999, "1 min"}, {119_700, "2 min"}, {3_599_600, "1 h"}, {7_199_000, "2 h"}, {172_799_000, "2 d"}, {9.96, "10 ms"}, {59_940, "59.9 s"}, {3_599_400, "59 min 59 s"}, {86_369_999, "23 h 59 min"}, {86_370_000, "1 d"}} {
		r := f.request(0)
		r["place"], r["at"], r["upstream_ms"] = fmt.Sprint("new-", i), f.now.Format(time.RFC3339), c.ms
		b, _ := json.Marshal(r)
		f.events <- fmt.Sprintf("id: %d\nevent: request\ndata: %s\n\n", i, b)
		p.until(fmt.Sprintf(`document.querySelectorAll("tr.row").length >= %d`, 51+i))
		if got := p.eval(`document.querySelector("tr.row").cells[5].firstChild.textContent`); got != c.want {
			t.Errorf("%v ms are %q, not %q", c.ms, got, c.want)
		}
	}
}
