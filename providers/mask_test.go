package providers

import (
	"strings"
	"testing"
)

// B095.
func TestSecretsStayIn(t *testing.T) {
	const key = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWx-9xyz"
	s := newSecrets([]string{key, "short-key-2"})
	for _, c := range []struct{ in, want string }{
		{"Incorrect API key provided: " + key + ".", "Incorrect API key provided: ***."},
		{"Incorrect API key provided: sk-proj-********9xyz. You can", "Incorrect API key provided: ***. You can"},
		{"Incorrect API key provided: sk-pr***9xyz. You can", "Incorrect API key provided: ***. You can"},
		{`{"message":"key sk-p...xyz is no good"}`, `{"message":"key *** is no good"}`},
		{"key begins sk-proj-AbCd", "key begins ***"},
		{"key ends WxYz or UvWx-9xyz", "key ends WxYz or ***"},
		{"key …9xyz", "key ***"},
		{"short-key-2 and " + key + key, "*** and ******"},
		{"a **bold** word and 3...4 stay", "a **bold** word and 3...4 stay"},
		{"nothing to hide", "nothing to hide"},
		{"", ""},
	} {
		in := []byte(c.in)
		if got := string(s.clean(in)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
		if string(in) != c.in {
			t.Errorf("%q was changed in place", c.in)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("a sk-0123456789abcdef b 9abcdef and sk-0***cdef", "sk-0123456789abcdef")
	f.Fuzz(func(t *testing.T, in, key string) {
		if len(key) < 2*shownPiece || strings.Contains(key, "*") || !fitsHeader(key) {
			return
		}
		got := string(newSecrets([]string{key}).clean([]byte(in)))
		if strings.Contains(got, key[:shownPiece]) || strings.Contains(got, key[len(key)-shownPiece:]) {
			t.Fatalf("%q with key %q: %q", in, key, got)
		}
	})
}
