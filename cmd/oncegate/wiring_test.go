package main

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"oncegate/cmd/oncegate/config"
)

// What the file says of Redis is what the store is opened with, and what the
// log says while it is away is what then happens.
func TestRedisOptions(t *testing.T) {
	for completions, want := range map[string]string{
		"run":    "completions run unprotected and writes are refused",
		"refuse": "completions and writes are refused",
	} {
		conf, err := config.Load(config.Source{File: "config.yaml", Data: []byte(
			"tools: [{name: payments, base_url: mock}]\ndashboard: {timezone: Europe/Oslo}\n" +
				"store: {url: 'redis://127.0.0.1:6379', secret: sixteen-bytes-or-more, replicas: 2, on_outage: {completions: " + completions + ", writes: refuse}}\n")})
		if err != nil {
			t.Fatal(err)
		}
		core, logged := observer.New(zap.InfoLevel)
		o := redisOptions(conf, zap.New(core))
		if o.Replicas != 2 || string(o.Secret) != "sixteen-bytes-or-more" || !o.KeepLost || o.Zone.String() != "Europe/Oslo" {
			t.Errorf("%+v", o)
		}
		o.Away(errors.New("refused"))
		o.Away(nil)
		if lines := logged.All(); len(lines) != 2 || lines[0].ContextMap()["until_it_is_back"] != want || lines[1].Message != "the store is back" {
			t.Errorf("%+v", lines)
		}
	}
}
