package providers

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// mask stands where a credential stood.
const mask = "***"

// shownPiece is how much of a key's start or end is a secret of its own:
// upstreams quote the first and last characters of a key they refuse.
const shownPiece = 8

// namesSecret reports whether a parameter or header of this name looks like
// one that holds a credential.
func namesSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"key", "token", "secret", "password", "sig", "auth", "cookie", "credential", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// secrets are an upstream's credentials, to be kept out of what it says.
type secrets []string

func newSecrets(keys []string) secrets {
	var s secrets
	for _, key := range keys {
		if len(key) >= 4 && !slices.Contains(s, key) {
			s = append(s, key)
		}
	}
	// A key that holds another one goes first.
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) })
	return s
}

// clean takes the credentials out of text, and the pieces of them: 8 or more
// characters of their start or end, and what an upstream left of a key that
// it masked itself (sk-ab***wxyz). text itself is not changed.
func (s secrets) clean(text []byte) []byte {
	if len(s) == 0 || len(text) == 0 {
		return text
	}
	for _, key := range s {
		if bytes.Contains(text, []byte(key)) {
			text = bytes.ReplaceAll(text, []byte(key), []byte(mask))
		}
	}
	for _, key := range s {
		if len(key) > shownPiece {
			text = cutStarts(text, key)
			text = cutEnds(text, key)
		}
	}
	for _, hidden := range [...]string{"**", "...", "…", "xxxx", "XXXX", "••"} {
		text = s.cutMasked(text, hidden)
	}
	return text
}

func (s secrets) cleanHeader(h http.Header) {
	for _, values := range h {
		for i, v := range values {
			if c := s.clean([]byte(v)); string(c) != v {
				values[i] = string(c)
			}
		}
	}
}

// cutStarts masks each longest piece of text that key begins with.
func cutStarts(text []byte, key string) []byte {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(key[:shownPiece]))
		if i < 0 {
			return text
		}
		i += from
		end := i + shownPiece
		for end < len(text) && end-i < len(key) && text[end] == key[end-i] {
			end++
		}
		text = slices.Concat(text[:i], []byte(mask), text[end:])
		from = i + len(mask)
	}
}

// cutEnds masks each longest piece of text that key ends with.
func cutEnds(text []byte, key string) []byte {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(key[len(key)-shownPiece:]))
		if i < 0 {
			return text
		}
		i += from
		end := i + shownPiece
		for i > 0 && end-i < len(key) && text[i-1] == key[len(key)-(end-i)-1] {
			i--
		}
		text = slices.Concat(text[:i], []byte(mask), text[end:])
		from = i + len(mask)
	}
}

// cutMasked replaces a key that the upstream masked in its middle: a word
// with hidden in it that begins or ends as one of our keys does.
func (s secrets) cutMasked(text []byte, hidden string) []byte {
	const shown = 2 // fewer characters in common say nothing
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(hidden))
		if i < 0 {
			return text
		}
		i += from
		end := i + len(hidden)
		for i > 0 && inKey(text[i-1]) {
			i--
		}
		for end < len(text) && inKey(text[end]) {
			end++
		}
		// A sentence's full stop is no part of the word.
		word := strings.TrimRight(string(text[i:end]), ".")
		if word == "" || strings.Trim(word, "*") == "" || !s.resembles(word, shown) {
			from = end
			continue
		}
		text = slices.Concat(text[:i], []byte(mask), text[i+len(word):])
		from = i + len(mask)
	}
}

func (s secrets) resembles(word string, shown int) bool {
	for _, key := range s {
		if len(key) > shown && (strings.HasPrefix(word, key[:shown]) || strings.HasSuffix(word, key[len(key)-shown:])) {
			return true
		}
	}
	return false
}

// inKey reports whether c may stand in a masked key: neither a space nor what
// JSON and prose put around one.
func inKey(c byte) bool {
	return c > ' ' && !strings.ContainsRune("\"'`()<>[]{},;:=\\", rune(c))
}
