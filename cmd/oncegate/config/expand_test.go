package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var stage = surroundings{
	env: func(n string) (string, bool) {
		v, ok := map[string]string{"A": "a", "EMPTY": "", "ODD": "${A}$$", "LINE": "x\r\n", "DIR": "/run"}[n]
		return v, ok
	},
	file: func(p string) ([]byte, error) {
		if p == "/run/secret" {
			return []byte("from file\n"), nil
		}
		return nil, os.ErrNotExist
	},
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "", "${A}": "a", "x${A}y${A}": "xaya", "$$": "$", "$$$$": "$$", "$${A}": "${A}", "a}b": "a}b",
		"${A:-b}": "a", "${B:-b}": "b", "${B:-}": "", "${EMPTY:-b}": "b", "${EMPTY}": "", "${B:-${A}}": "a", "${B:-$$}": "$",
		"${B:-x{y}": "x{y", "${ODD}": "${A}$$", "${LINE}": "x", "${file:/run/secret}": "from file", "${file:${DIR}/secret}!": "from file!",
		"${B:-${file:/run/secret}}": "from file", "${A:-${NOPE}}": "a", "${A:-${file:/nope}}": "a",
	} {
		if got, err := stage.expand(text); err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestExpandFaults(t *testing.T) {
	for text, want := range map[string]string{
		"${NOPE}": "the environment has no NOPE", "$A": "lone $", "a$": "lone $", "${": "without a name", "${}": "without a name",
		"${A": "without its }", "${A:-b": "without its }", "${1A}": "without a name", "${A-b}": "without its }", "${file:/nope}": "cannot be read",
		"${file:/run/secret": "without its }", "${B:-${NOPE}}": "no NOPE", "${A:-$x}": "lone $",
		strings.Repeat("${B:-", 20) + "x" + strings.Repeat("}", 20): "nested",
	} {
		_, err := stage.expand(text)
		e, ok := errors.AsType[*expandError](err)
		if !ok || !strings.Contains(e.what, want) || e.mend == "" {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestSecretFilesAreBounded(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, maxSecretFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSecret(big); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Error(err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"a", "${A}", "$$", "${B:-${A}}", "${file:/run/secret}", "${", "$", "${A:-$", "}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := stage.expand(text)
		if !strings.Contains(text, "$") && (err != nil || got != text) {
			t.Fatalf("%q without a dollar became %q, %v", text, got, err)
		}
		// A text whose dollars are doubled is itself.
		if got, err := stage.expand(strings.ReplaceAll(text, "$", "$$")); err != nil || got != text {
			t.Fatalf("%q escaped gives %q, %v", text, got, err)
		}
	})
}
