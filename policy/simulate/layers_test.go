package simulate

import "testing"

// One owner of retries: a client's tries and the gateway's don't multiply.
func TestLayers(t *testing.T) {
	for i, want := range []struct{ untold, fewest, most, tries int }{
		{9, 3, 3, 1},   // obeys x-should-retry
		{9, 5, 5, 3},   // does not: its later tries get one attempt each
		{21, 8, 10, 7}, // none within the memo; three again where the last one comes after a minute
	} {
		c := clients[i]
		for seed := range uint64(seeds) {
			_, untold := c.layers(ours, false, seed)
			if untold.attempts != want.untold || untold.tries != c.tries {
				t.Errorf("%s, untold: %+v", c.name, untold)
			}
			load, told := c.layers(ours, true, seed)
			if told.attempts < want.fewest || told.attempts > want.most || told.tries != want.tries {
				t.Errorf("%s: %+v", c.name, told)
			}
			offered := 0
			for _, b := range load {
				offered += b.Offered
			}
			if offered != told.attempts {
				t.Errorf("%s: a load of %d attempts, not %d", c.name, offered, told.attempts)
			}
		}
	}
}
