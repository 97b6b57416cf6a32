// Package harness runs the real oncegate binary for black-box tests: it builds
// it, writes its configuration, starts, stops and kills it, and speaks HTTP to
// it. It imports nothing of the product.
package harness

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Main is the TestMain of a package whose tests use the harness: it lets many
// of them run at once, for they mostly wait, and removes what was built when
// they are done.
func Main(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "12")
	}
	if err := leaveOut(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if builds.dir != "" {
		_ = os.RemoveAll(builds.dir)
	}
	os.Exit(code)
}

var builds struct {
	once sync.Once
	dir  string
	err  error
}

var binaries = map[bool]func() (string, error){
	false: sync.OnceValues(func() (string, error) { return build(false) }),
	true:  sync.OnceValues(func() (string, error) { return build(true) }),
}

// Binary gives the path of the product, built once a test process: with the
// race detector where the tests have it and ONCEGATE_RACE is set, since it costs
// three times the CPU; and without it where plain is set, for tests that measure
// memory or CPU.
func Binary(t testing.TB, plain bool) string {
	t.Helper()
	path, err := binaries[raceEnabled && !plain && os.Getenv("ONCEGATE_RACE") != ""]()
	if err != nil {
		t.Fatalf("building oncegate: %v", err)
	}
	return path
}

func build(race bool) (string, error) {
	builds.once.Do(func() { builds.dir, builds.err = os.MkdirTemp("", "oncegate-test-") })
	if builds.err != nil {
		return "", builds.err
	}
	root, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(builds.dir, fmt.Sprintf("oncegate-race-%t", race))
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/oncegate")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return path, nil
}

// root finds the project's folder: the nearest one above with a go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the test's folder")
		}
		dir = up
	}
}
