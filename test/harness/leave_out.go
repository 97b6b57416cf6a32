package harness

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// leaveOut says so and leaves out the tests that need a program which is not
// there, Redis or Prometheus. With CI=true in the environment that is an error.
func leaveOut() error {
	var skip []string
	for _, need := range []struct{ tests, what, packages string }{
		{"^Test(Nodes|StoreAway)", without("redis-server", "redis-cli"), "redis-server libfaketime"},
		{"^TestNodesB080|^TestNodesWritesB072", withoutClock(), "redis-server libfaketime"},
		{"^TestPrometheus", without("prometheus", "promtool"), "prometheus"},
	} {
		if need.what == "" {
			continue
		}
		said := fmt.Sprintf("there is %s: run test/run.sh, or apt-get install %s", need.what, need.packages)
		if os.Getenv("CI") == "true" {
			return errors.New(said)
		}
		fmt.Fprintf(os.Stderr, "left out: the tests named %s: %s\n", need.tests, said)
		skip = append(skip, need.tests)
	}
	if len(skip) == 0 {
		return nil
	}
	if chosen := flag.Lookup("test.skip").Value.String(); chosen != "" {
		skip = append(skip, chosen)
	}
	return flag.Set("test.skip", strings.Join(skip, "|"))
}

// without names the programs that are not there.
func without(programs ...string) string {
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, "no "+program)
		}
	}
	return strings.Join(missing, ", ")
}

func withoutClock() string {
	if found, _ := filepath.Glob("/usr/lib*/*/faketime/libfaketime.so.1"); len(found) == 0 {
		return "no libfaketime"
	}
	return ""
}
