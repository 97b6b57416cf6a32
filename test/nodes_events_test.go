package test

import (
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/up"
)

// Figures are those of the store: a page on one node is told soon of what another
// did, as it is of the requests.
func TestNodesEventsTellOfTheOthers(t *testing.T) {
	t.Parallel()
	_, a, b := nodes(t, up.New(t))
	a.Chat(cc())
	told := summaries(t, a)
	heard(t, told, 5*time.Second, "its own request", func(s gjson.Result) bool { return s.Get("total.requests").Int() >= 1 })
	<-time.After(1500 * time.Millisecond)
	b.Chat(said("elsewhere"))
	heard(t, told, 10*time.Second, "that of the other node", func(s gjson.Result) bool { return s.Get("total.requests").Int() == 2 })
}
