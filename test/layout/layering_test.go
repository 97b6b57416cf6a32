// Package layout holds the shape of the tree: who may import whom, and what
// may stand in a folder.
package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mayImport says which of the project's own packages each may know. A folder
// stands for those below it, unless they have a line of their own.
var mayImport = map[string][]string{
	"cmd/oncegate":    {"*"},
	"gateway":         {"cache", "cache/report", "policy", "prices", "providers"},
	"cache":           {},
	"cache/local":     {"cache"},
	"cache/redis":     {"cache"},
	"cache/cachetest": {"cache"},
	"cache/report":    {"cache"},
	"policy":          {},
	"policy/simulate": {"cache", "policy"},
	"prices":          {},
	"providers":       {"policy", "prices"},
	"providers/mock":  {},
	"web":             {"cache"},
}

// mustNotImport are the modules that a package keeps away from.
var mustNotImport = map[string][]string{
	"policy":    {"net/http", "github.com/labstack/echo", "go.uber.org/zap", "github.com/prometheus", "github.com/redis"},
	"cache":     {"net/http", "github.com/labstack/echo", "go.uber.org/zap", "github.com/prometheus"},
	"gateway":   {"github.com/redis"},
	"prices":    {"net/http", "github.com/labstack/echo", "go.uber.org/zap", "github.com/prometheus", "github.com/redis"},
	"providers": {"github.com/labstack/echo", "github.com/redis"},
	"web":       {"github.com/labstack/echo", "go.uber.org/zap", "github.com/prometheus", "github.com/redis"},
}

// TestLayering reads the files themselves: a test that asks the go command is
// answered from the test cache.
func TestLayering(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			if rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || rel == "test" || rel == "bench" || rel == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		files++
		folder := filepath.ToSlash(filepath.Dir(rel))
		rule, allowed := ruleFor(folder)
		if rule == "" {
			t.Errorf("%s: no rule says what the folder %s may import", rel, folder)
			return nil
		}
		seen[rule] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if own, ok := strings.CutPrefix(imported, "oncegate/"); ok && !permitted(own, rule, allowed) {
				t.Errorf("%s imports %s, which %s must not know", rel, imported, rule)
			}
			for _, banned := range mustNotImport[strings.Split(folder, "/")[0]] {
				if imported == banned || strings.HasPrefix(imported, banned+"/") {
					t.Errorf("%s imports %s", rel, imported)
				}
			}
			if strings.HasPrefix(imported, "github.com/labstack/echo") && rel != "gateway/routes.go" {
				t.Errorf("%s imports echo; only gateway/routes.go may", rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were read: is the root right?", files)
	}
	for rule := range mayImport {
		if !seen[rule] {
			t.Errorf("the rule for %s fits no file", rule)
		}
	}
}

// ruleFor finds the longest rule that a folder falls under.
func ruleFor(folder string) (string, []string) {
	for f := folder; f != "."; f = filepath.ToSlash(filepath.Dir(f)) {
		if allowed, ok := mayImport[f]; ok {
			return f, allowed
		}
	}
	return "", nil
}

func permitted(own, rule string, allowed []string) bool {
	if own == rule || strings.HasPrefix(own, rule+"/") {
		return true
	}
	for _, a := range allowed {
		if a == "*" || a == own {
			return true
		}
	}
	return false
}
