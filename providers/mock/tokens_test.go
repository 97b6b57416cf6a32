package mock

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, " \n": 0, "hi": 1, "four": 1, "fiver": 2, "a b  c": 3, "สวัสดีครับ": 3, strings.Repeat("x", 800): 200,
	} {
		if got := tokens(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestPartsJoinToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n := rapid.String().Draw(t, "text"), rapid.IntRange(0, 9).Draw(t, "n")
		if got := strings.Join(pieces(text, n), ""); got != text {
			t.Fatalf("pieces: %q", got)
		}
		if got := strings.Join(fragments(text, n), ""); got != text {
			t.Fatalf("fragments: %q", got)
		}
		for _, f := range fragments(text, n) {
			if utf8.ValidString(text) && !utf8.ValidString(f) {
				t.Fatalf("a character was split: %q", f)
			}
		}
		if n > 0 && len(pieces(text, n)) > n {
			t.Fatal("too many pieces")
		}
		cut, was := cutTokens(text, n)
		if n > 0 && tokens(cut) > n || was != (n > 0 && tokens(text) > n) || !was && cut != text {
			t.Fatalf("cut to %d: %q of %q", n, cut, text)
		}
	})
}
