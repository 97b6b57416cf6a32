package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
)

// The secrets of every test. The harness fails a test whose log shows one.
const (
	PK = "sk-up-7Qw4provider9Zx2secret5Lm8tail" // the provider's key
	K1 = "ogk_alice_3fK9sQm2Vx7Lp0Tz"           // two gateway keys of two users
	K2 = "ogk_bob_8hRw5Yc1Nd6Jb4Ge"
)

// Config sets parts of the configuration: dotted paths to values, nil to leave
// a part out. A later one wins.
type Config map[string]any

// Map is an object inside a configuration.
type Map = map[string]any

// Knobs are the settings that most cases are written for, with one provider
// "up" that answers for every model.
func Knobs(upstream string) Config {
	return Config{
		"store.lease":                  "2s",
		"dedupe.ttl.chat":              "60s",
		"policy.attempts":              3,
		"policy.backoff.base":          "100ms",
		"policy.backoff.throttle_base": "100ms",
		"policy.backoff.cap":           "2s",
		"policy.retry_after_cap":       "5s",
		"policy.timeouts.first_byte":   "2s",
		"providers":                    []any{Provider("up", upstream)},
		"models":                       []any{Model("*", "up")},
	}
}

// Shipped are the defaults, with one provider "up" for every model.
func Shipped() Config { return Config{"store.lease": nil, "dedupe": nil, "policy": nil} }

// Provider is an entry of providers, of kind openai.
func Provider(name, upstream string) Map {
	return Map{"name": name, "kind": "openai", "base_url": upstream, "api_keys": []any{PK}}
}

// Anthropic is an entry of providers, of kind anthropic.
func Anthropic(name, upstream string) Map {
	return Map{"name": name, "kind": "anthropic", "base_url": upstream, "api_keys": []any{PK}}
}

// Tool is an entry of tools, with further members.
func Tool(name, upstream string, members Map) Map {
	tool := Map{"name": name, "base_url": upstream, "headers": Map{"Authorization": "Bearer " + PK}}
	maps.Copy(tool, members)
	return tool
}

// Model is an entry of models that is served under its own name by each of the
// providers, the later ones as fallbacks.
func Model(name string, providers ...string) Map {
	var targets []any
	for i, p := range providers {
		weight := 1
		if i > 0 {
			weight = 0
		}
		targets = append(targets, Map{"provider": p, "weight": weight})
	}
	return Map{"name": name, "targets": targets}
}

// Keys are auth.keys of two users, K1 and K2, who may use every model.
func Keys() Config {
	return Config{"auth.keys": []any{Key("alice", K1), Key("bob", K2)}}
}

// Key is an entry of auth.keys.
func Key(name, key string) Map {
	sum := sha256.Sum256([]byte(key))
	return Map{"name": name, "hash": "sha256:" + hex.EncodeToString(sum[:]), "models": []any{"*"}}
}

// Bearer is the header line that sends a gateway key.
func Bearer(key string) string { return "Authorization: Bearer " + key }

// document builds the file: JSON, which is YAML too.
func document(parts []Config) []byte {
	root := Map{}
	for _, c := range parts {
		for path, value := range c {
			if value == nil {
				set(root, strings.Split(path, "."), nil)
			}
		}
		for path, value := range c {
			if value != nil {
				set(root, strings.Split(path, "."), value)
			}
		}
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // a test wrote something that JSON can't hold
	}
	return out
}

func set(m Map, path []string, value any) {
	if len(path) > 1 {
		next, ok := m[path[0]].(Map)
		if !ok {
			if value == nil {
				return
			}
			next = Map{}
			m[path[0]] = next
		}
		set(next, path[1:], value)
		return
	}
	if value == nil {
		delete(m, path[0])
		return
	}
	m[path[0]] = value
}
