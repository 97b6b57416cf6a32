package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// exits runs a command for a script, and wants a certain exit status: exits 2
// oncegate nope. Its output is the command's.
func exits() {
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "exits: wants a status first:", err)
		os.Exit(1)
	}
	c := exec.Command(os.Args[2], os.Args[3:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Run()
	if got := c.ProcessState.ExitCode(); got != want {
		fmt.Fprintf(os.Stderr, "exits: status %d, not %d\n", got, want)
		os.Exit(1)
	}
}
