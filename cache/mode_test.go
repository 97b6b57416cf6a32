package cache

import "testing"

func TestModeWords(t *testing.T) {
	for word, want := range map[string]Mode{"off": Off, "Retries": Retries, "duplicates": Duplicates, "ALWAYS": Always} {
		m, ok := ParseMode(word)
		if !ok || m != want {
			t.Errorf("%q is %v, %v", word, m, ok)
		}
		if again, ok := ParseMode(m.String()); !ok || again != m {
			t.Errorf("%v reads as %v, %v", m, again, ok)
		}
	}
	for _, word := range []string{"", "of", "offf", "on", "unknown", "2"} {
		if m, ok := ParseMode(word); ok {
			t.Errorf("%q is %v", word, m)
		}
	}
	if s := Mode(9).String(); s != "unknown" {
		t.Error(s)
	}
}
