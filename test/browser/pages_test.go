package browser

import "testing"

var pages = []struct{ name, path string }{
	{"overview", "/"}, {"requests", "/requests"}, {"record", "/records/" + key(0)}, {"doubt", "/doubt"}, {"tools", "/tools"}, {"targets", "/targets"}, {"ledger", "/ledger"},
}

func TestPages(t *testing.T) {
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			for _, light := range []string{"light", "dark"} {
				p := open(t, newFake(t), shade(light))
				p.visit(page.path)
				p.shot(page.name + "-" + light)
			}
		})
	}
}
