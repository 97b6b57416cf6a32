package config

import (
	"os"
	"strings"
	"testing"
)

// Whatever the file holds, Load ends, never panics, and every fault says where
// it is.
func FuzzLoad(f *testing.F) {
	five, err := os.ReadFile("testdata/five.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{small, printed, string(five), "", "a: &a [*a]", "x: &x {<<: *x}", "server: {listen: !!str x}", "? [a]\n: b", "- a\n---\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file:") {
			return // it could name a file that never ends
		}
		c, err := Load(Source{File: "config.yaml", Data: []byte(text), Env: []string{"KEY=x"}})
		if err == nil {
			if _, err := c.Print(); err != nil {
				t.Fatalf("a good configuration can't be printed: %v", err)
			}
			return
		}
		for _, fault := range err.(Faults) {
			if fault.Place.File == "" || fault.What == "" || fault.Mend == "" {
				t.Fatalf("a fault that does not tell: %q", fault)
			}
		}
	})
}
