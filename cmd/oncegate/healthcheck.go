package main

import (
	"fmt"
	"time"
)

type healthcheckCommand struct {
	adminFlag
}

func (c *healthcheckCommand) Run(in *invocation) error {
	if _, err := c.get(in, "livez", nil, 3*time.Second); err != nil {
		return err
	}
	_, err := fmt.Fprintln(in.stdout, "ok")
	return err
}
