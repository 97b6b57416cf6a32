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

// leaveOut says so and leaves out the tests on Redis where there is nothing to
// start them with. With CI=true in the environment that is an error.
func leaveOut() error {
	var skip, why []string
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			skip, why = []string{"^Test(Nodes|StoreAway)"}, append(why, "no "+program)
		}
	}
	if found, _ := filepath.Glob("/usr/lib*/*/faketime/libfaketime.so.1"); len(found) == 0 && len(skip) == 0 {
		skip, why = []string{"^TestNodesB080|^TestNodesWritesB072"}, append(why, "no libfaketime")
	}
	if len(skip) == 0 {
		return nil
	}
	said := fmt.Sprintf("there is %s: run test/run.sh, or apt-get install redis-server libfaketime", strings.Join(why, ", "))
	if os.Getenv("CI") == "true" {
		return errors.New(said)
	}
	fmt.Fprintf(os.Stderr, "left out: the tests named %s: %s\n", skip[0], said)
	if chosen := flag.Lookup("test.skip").Value.String(); chosen != "" {
		skip = append(skip, chosen)
	}
	return flag.Set("test.skip", strings.Join(skip, "|"))
}
