package web

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	topLevel   = regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|class|function) (?:\{([^}]*)\}|(\w+))`)
	ownImports = regexp.MustCompile(`(?m)^import \{([^}]*)\} from "\./(\w+)\.js";$`)
)

// names gives what a module has at its top, and what of it is exported.
func names(text string) (all, exported []string) {
	for _, m := range topLevel.FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(m[1]+m[2], ",") {
			all = append(all, strings.TrimSpace(name))
			if strings.HasPrefix(m[0], "export ") {
				exported = append(exported, strings.TrimSpace(name))
			}
		}
	}
	return all, exported
}

// The page's modules share one scope: a name that two of them have is one that
// no browser takes.
func TestModules(t *testing.T) {
	owner, exports := map[string]string{}, map[string][]string{}
	for _, module := range modules {
		text, err := files.ReadFile("app/" + module + ".js")
		if err != nil {
			t.Fatal(err)
		}
		all, exported := names(string(text))
		exports[module] = exported
		for _, name := range all {
			if other, taken := owner[name]; taken {
				t.Errorf("app/%s.js and app/%s.js both have %s", other, module, name)
			}
			owner[name] = module
		}
	}
	entries, err := files.ReadDir("app")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(modules, strings.TrimSuffix(e.Name(), path.Ext(e.Name()))) {
			t.Errorf("app/%s is not among the modules", e.Name())
		}
	}
	// What is imported is there and is used.
	for _, module := range modules {
		text, err := files.ReadFile("app/" + module + ".js")
		if err != nil {
			t.Fatal(err)
		}
		body := ownImport.ReplaceAllString(string(text), "")
		for _, m := range ownImports.FindAllStringSubmatch(string(text), -1) {
			for name := range strings.SplitSeq(m[1], ",") {
				name = strings.TrimSpace(name)
				if !slices.Contains(exports[m[2]], name) {
					t.Errorf("app/%s.js imports %s, which app/%s.js does not export", module, name, m[2])
				}
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(body) {
					t.Errorf("app/%s.js imports %s and does not use it", module, name)
				}
			}
		}
	}
}
