package main

import (
	"fmt"
	"os"

	"oncegate/cmd/oncegate/config"
)

// configFile is the flag that names the configuration.
type configFile struct {
	Config string `help:"The configuration; ./config.yaml if there." placeholder:"FILE" env:"ONCEGATE_CONFIG"`
}

// load reads the configuration. Flags are paths of keys and what the command
// line says of them.
func (f configFile) load(env []string, flags map[string]string) (*config.Config, error) {
	return config.Load(config.Source{File: f.path(), Env: env, Flags: flags})
}

// path is the file that counts; empty: there is none.
func (f configFile) path() string {
	if f.Config != "" {
		return f.Config
	}
	if _, err := os.Stat("config.yaml"); err == nil {
		return "config.yaml"
	}
	return ""
}

type configCommand struct {
	Check  configCheck  `cmd:"" help:"Print every fault, each with its line and its mend. Exit status 2 if there is one."`
	Print  configPrint  `cmd:"" help:"Print what counts: all keys, secrets masked, each with where it came from."`
	Schema configSchema `cmd:"" help:"Print a JSON Schema of the file."`
}

type configCheck struct {
	configFile
}

func (c *configCheck) Run(in *invocation) error {
	if _, err := c.load(in.env, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintln(in.stdout, "ok")
	return err
}

type configPrint struct {
	configFile
}

func (c *configPrint) Run(in *invocation) error {
	conf, err := c.load(in.env, nil)
	if err != nil {
		return err
	}
	text, err := conf.Print()
	if err != nil {
		return err
	}
	_, err = in.stdout.Write(text)
	return err
}

type configSchema struct{}

func (configSchema) Run(in *invocation) error {
	text, err := config.Schema()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(in.stdout, "%s\n", text)
	return err
}
