package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"oncegate/cmd/oncegate/config"
)

type keyCommand struct {
	New keyNew `cmd:"" help:"Make a key: the key itself, shown this once, and its hash for auth.keys."`
}

type keyNew struct {
	Name string `arg:"" help:"Whose key it is: its name in auth.keys."`
}

func (c *keyNew) Run(in *invocation) error {
	if !config.ValidName(c.Name) {
		return usage{fmt.Errorf("%q is not a name: use letters, digits, dots, dashes and underscores, 64 at most", c.Name)}
	}
	var random [32]byte
	rand.Read(random[:])
	key := "ogk_" + base64.RawURLEncoding.EncodeToString(random[:])
	// A key of 256 random bits needs no slow hash: there is nothing to guess.
	fmt.Fprintf(in.stderr, "# auth.keys: - {name: %s, hash: \"sha256:...\"}; clients send the key\n", c.Name)
	_, err := fmt.Fprintf(in.stdout, "key: %s\nhash: sha256:%x\n", key, sha256.Sum256([]byte(key)))
	return err
}
