package config

import (
	"strings"
	"testing"
)

// Each value is there once, with where it is from, and no secret is.
func TestValues(t *testing.T) {
	c := mustLoad(t, printed, "KEY=hunter2-key", "ONCEGATE_DEDUPE_LINGER=0")
	got := map[string]string{}
	for _, v := range c.Values() {
		if _, twice := got[v.Path]; twice {
			t.Errorf("%s is there twice", v.Path)
		}
		if got[v.Path] = v.Text + " from " + v.Place.String(); strings.Contains(v.Text, "hunter2") {
			t.Errorf("%s shows a secret: %s", v.Path, v.Text)
		}
	}
	for path, want := range map[string]string{
		"server.listen": "127.0.0.1:8080 from default", "dedupe.linger": "0s from env ONCEGATE_DEDUPE_LINGER", "dedupe.ttl.chat": "1h30m from config.yaml:6",
		"auth.admin_token": "******** from config.yaml:3", "auth.keys[0].name": "a from config.yaml:4", "auth.keys[0].models": "[gpt-4*, a$$b*] from config.yaml:4",
		"providers[0].api_keys": "[********, ********] from config.yaml:11", "tools[0].base_url": "https://api.acmepay.example?******** from config.yaml:16",
		"tools[0].not_executed": "[503, 429] from config.yaml:19", "prices.qwen3:8b.output": "0.000000000001 from config.yaml:25",
		"dedupe.headers": "[] from config.yaml:6", "tools[0].headers.x-a.b": "******** from config.yaml:17", "models[0].targets[1].weight": "0 from config.yaml:13",
	} {
		if got[path] != want {
			t.Errorf("%s: %q, want %q", path, got[path], want)
		}
	}
}
