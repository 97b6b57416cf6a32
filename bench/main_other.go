//go:build !linux

// Command bench needs Linux: it pins processes to cores and reads /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: it pins processes to cores and reads /proc, so it needs Linux; try it in a container")
	os.Exit(1)
}
