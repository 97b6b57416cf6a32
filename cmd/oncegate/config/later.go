package config

import "strings"

// later lists the keys of the documented configuration that this version
// refuses, so that none of them seems to work. A key leaves this list in the
// change that gives it its effect.
var later = map[string]bool{
	"dashboard.show_bodies": true,
}

// laterKinds are provider kinds to come, refused by name.
var laterKinds = map[string]bool{"gemini": true, "bedrock": true, "azure": true}

// isLater says whether a key that no struct has is one to come.
func isLater(path string) bool {
	p := withoutIndexes(path)
	return later[p] || later[strings.TrimPrefix(p, "providers[].")]
}

// withoutIndexes turns providers[3].name into providers[].name.
func withoutIndexes(path string) string {
	var b strings.Builder
	skip := false
	for _, r := range path {
		if r == ']' {
			skip = false
		}
		if !skip {
			b.WriteRune(r)
		}
		if r == '[' {
			skip = true
		}
	}
	return b.String()
}
