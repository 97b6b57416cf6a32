// Command oncegate is a gateway between AI agents and the models and tools they
// call. A call that is asked for twice runs once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	_ "time/tzdata" // zones, where the machine has none

	"github.com/alecthomas/kong"

	"oncegate/cmd/oncegate/config"
	"oncegate/policy/simulate"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(exitStatus(err, os.Stderr))
}

// commands is the command line.
type commands struct {
	Serve       serveCommand       `cmd:"" help:"Run the gateway."`
	Mock        mockCommand        `cmd:"" help:"Run a scripted upstream: the endpoints of OpenAI and Anthropic without a model."`
	Demo        demoCommand        `cmd:"" help:"Show what is saved: a gateway and an upstream that goes wrong, in one process."`
	Verify      verifyCommand      `cmd:"" help:"Play scenarios against a gateway: exit status 1 if one does not hold."`
	Simulate    simulateCommand    `cmd:"" help:"What the retry policy does in an outage, beside others, in virtual time."`
	Config      configCommand      `cmd:"" help:"Check, print or describe the configuration."`
	Key         keyCommand         `cmd:"" help:"Make gateway keys."`
	Report      reportCommand      `cmd:"" help:"What was saved, and what was billed."`
	Records     recordsCommand     `cmd:"" help:"Writes of tools: what became of them, and what nobody knows."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running gateway whether it lives: exit status 0 or 1."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// invocation is what a command may use of its surroundings.
type invocation struct {
	ctx            context.Context // ends the command
	env            []string        // as os.Environ gives it
	stdout, stderr io.Writer
}

// run is the program. It returns when the command has ended; ctx ends it early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c commands
	helped := false
	parser, err := kong.New(&c,
		kong.Name("oncegate"),
		kong.Description("A gateway between AI agents and the models and tools they call. A call that is asked for twice runs once."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.Vars{"scenarios": strings.Join(simulate.Names(), ", ")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "--version":
		args = []string{"version"}
	}
	command, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil:
		return usage{fmt.Errorf("%w (see oncegate --help)", err)}
	}
	return command.Run(&invocation{ctx: ctx, env: os.Environ(), stdout: stdout, stderr: stderr})
}

// usage is an error in how the program was called.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// exitStatus tells an error and gives the exit status: 0 fine, 1 the work failed,
// 2 wrong usage or configuration.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		fmt.Fprintln(stderr, faults)
		return 2
	}
	fmt.Fprintln(stderr, "oncegate:", err)
	if _, ok := errors.AsType[usage](err); ok {
		return 2
	}
	return 1
}
