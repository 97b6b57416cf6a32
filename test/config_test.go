package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB086EnvironmentInTheConfiguration(t *testing.T) {
	t.Parallel()
	withKey := func(u *up.Server, key string) harness.Config {
		p := harness.Provider("up", u.URL())
		p["api_keys"] = []any{key}
		return harness.Config{"providers": []any{p}}
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const odd = `p$B:x#"' {a: [b]} é ${NOPE}`
	for name, c := range map[string]struct{ in, env, want string }{
		"any character":      {"${TEST_UPSTREAM_KEY}", odd, odd},
		"beside text":        {"a-${TEST_UPSTREAM_KEY}-b", odd, "a-" + odd + "-b"},
		"a trailing newline": {"${TEST_UPSTREAM_KEY}", "plain\n", "plain"},
		"a dollar":           {"pa$$word", "", "pa$word"},
		"a default":          {"${TEST_UNSET:-fall:back}", "", "fall:back"},
		"a default unused":   {"${TEST_UPSTREAM_KEY:-fallback}", "set", "set"},
		"a file":             {"${file:" + file + "}", "", "from-a-file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			g := harness.Start(t, u.URL(), withKey(u, c.in), harness.Env("TEST_UPSTREAM_KEY="+c.env))
			if a := g.Chat(cc()); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if got := u.Call(1).Get("Authorization"); got != "Bearer "+c.want {
				t.Errorf("Authorization: %q, want %q", got, "Bearer "+c.want)
			}
		})
	}
	t.Run("unset", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		code, out := harness.Refuse(t, u.URL(), withKey(u, "${NOPE}"))
		if code != 2 || !strings.Contains(out, "NOPE") {
			t.Errorf("exit status %d: %s", code, out)
		}
	})
}

// An environment variable wins over the file.
func TestEnvironmentOverTheFile(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Env("ONCEGATE_SERVER_MAX_BODY=1KiB"))
	problem{413, "request_too_large", "false", "", "", ""}.want(t, g.Chat(said(strings.Repeat("x", 2000))))
}

// What would be unsafe or a typing error is refused at start, with what to do.
func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change harness.Config
		says   []string
	}{
		"a typing error":          {harness.Config{"server.max_bdy": "1MiB"}, []string{"max_bdy", "max_body"}},
		"open to the network":     {harness.Config{"server.listen": "0.0.0.0:0"}, []string{"auth"}},
		"admin without a token":   {harness.Config{"server.admin_listen": "0.0.0.0:0"}, []string{"admin_token"}},
		"a kind that comes later": {harness.Config{"providers": []any{harness.Map{"name": "up", "kind": "gemini", "base_url": "http://127.0.0.1:1"}}}, []string{"gemini"}},
		"a provider that is not":  {harness.Config{"models": []any{harness.Model("m1", "nobody")}}, []string{"nobody"}},
		"a mode that is not":      {harness.Config{"dedupe.mode": "sometimes"}, []string{"sometimes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := harness.Refuse(t, up.Refused(t), c.change)
			if code != 2 {
				t.Errorf("exit status %d", code)
			}
			for _, word := range c.says {
				if !strings.Contains(out, word) {
					t.Errorf("it does not say %q: %s", word, out)
				}
			}
		})
	}
}
