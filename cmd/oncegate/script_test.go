package main

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"oncegate": func() {
			os.Exit(exitStatus(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
		},
		"exits": exits,
	})
}

// The scripts in testdata/script call the program as a user does.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody listens on
			if err != nil {
				return err
			}
			e.Setenv("FREE", l.Addr().String())
			return l.Close()
		},
	})
}
