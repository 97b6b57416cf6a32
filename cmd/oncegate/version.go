package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version string

type versionCommand struct{}

func (versionCommand) Run(in *invocation) error {
	_, err := fmt.Fprintf(in.stdout, "oncegate %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// buildVersion is the release; of a build without one what Go noted of it.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
