package browser

import (
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// real is a tab on a gateway in front of a payee, whose tool is "pay".
func real(t *testing.T, payee *up.Server) (*tab, *harness.Gateway) {
	t.Helper()
	g := harness.Start(t, payee.URL(), harness.Config{
		"tools":                  []any{harness.Tool("pay", payee.URL(), nil)},
		"policy.breaker.enabled": false,
	})
	p := open(t, newFake(t))
	p.base = "http://" + g.Admin
	return p, g
}
