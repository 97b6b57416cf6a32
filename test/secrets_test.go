package test

import (
	"net/url"
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// wantNone says that a text shows nothing of a secret: not the whole of it,
// and neither its first nor its last characters.
func wantNone(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		for _, piece := range []string{s, s[:12], s[len(s)-8:]} {
			if strings.Contains(text, piece) {
				t.Errorf("%s shows %q: %.600s", what, piece, text)
			}
		}
	}
}

// dump is an answer with its headers, as text.
func dump(a *harness.Answer) string {
	var b strings.Builder
	_ = a.Header.Write(&b)
	return b.String() + "\n" + a.Body
}

func TestB095SecretsOfARefusal(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	const wrong = "ogk_wrong_5pRt9Ym3Kd8Xs1Vc"
	for _, lines := range [][]string{{harness.Bearer(wrong)}, {"x-api-key: " + wrong}, {harness.Bearer(harness.K1), "api-key: " + wrong}} {
		a := g.Chat(cc(), lines...)
		if a.Status != 401 {
			t.Errorf("%d", a.Status)
		}
		wantNone(t, "the 401", dump(a), wrong, harness.K1, harness.PK)
		for _, word := range []string{"sha256:", "sqlite", g.Addr, "alice"} {
			if strings.Contains(a.Body, word) {
				t.Errorf("the 401 shows %q: %s", word, a.Body)
			}
		}
	}
	g.Stop()
	wantNone(t, "the log", g.Log(), wrong)
	wantUnseen(t, u, 0)
}

func TestB095SecretsOfAnUpstreamsRefusal(t *testing.T) {
	t.Parallel()
	pk := harness.PK
	masked := pk[:7] + strings.Repeat("*", 20) + pk[len(pk)-4:]
	for name, body := range map[string]string{
		"the whole key": `{"error":{"message":"Incorrect API key provided: ` + pk + `.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		"escaped":       `{"error":{"message":"Incorrect API key provided: ` + strings.Replace(pk, "-", `\u002d`, -1) + `.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		"its ends":      `{"error":{"message":"Incorrect API key provided: ` + masked + `. Find yours at https://x.example.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`,
		"not as JSON":   "wrong key " + pk,
	} {
		for _, status := range []int{401, 403, 400} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				u := up.New(t, up.Status(status, body, "x-debug: "+pk))
				g := harness.Start(t, u.URL(), harness.Keys())
				a := g.Chat(cc(), harness.Bearer(harness.K1))
				if a.Status != status && a.Status != 502 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
				if status != 400 && a.Reason() != "upstream_credential" {
					t.Errorf("reason %q: it can't be told from a bad gateway key", a.Reason())
				}
				if status != 400 && a.Outcome() != "failed" {
					t.Errorf("outcome %q", a.Outcome())
				}
				text := dump(a)
				for _, piece := range []string{pk, pk[len(pk)-4:], strings.Replace(pk, "-", `\u002d`, -1)} {
					if strings.Contains(text, piece) {
						t.Errorf("the answer shows %q: %s", piece, text)
					}
				}
				wantCalls(t, u, 1)
			})
		}
	}
}

func TestB095CredentialsGoWhereTheyBelong(t *testing.T) {
	t.Parallel()
	elsewhere := up.New(t)
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	for _, status := range []int{301, 302, 307, 308} {
		u.Script(up.Status(status, "", "Location: "+elsewhere.URL()+"/v1/chat/completions"))
		a := g.Chat(said(string(rune('a'+status-301))), harness.Bearer(harness.K1), "Cookie: session=deadbeef")
		if a.Status != 502 {
			t.Errorf("a redirect became %d %s", a.Status, a.Body)
		}
		wantNone(t, "the answer", dump(a), harness.PK)
	}
	wantUnseen(t, elsewhere, 0) // never followed
	for _, lines := range [][]string{{harness.Bearer(harness.K1)}, {"x-api-key: " + harness.K1}, {"api-key: " + harness.K1}, {harness.Bearer(harness.K1), "x-api-key: " + harness.K1}} {
		u.Script(up.OK("ok"))
		before := u.N()
		a := g.Chat(said(lines[0]), lines...)
		wantNone(t, "the answer", dump(a), harness.PK, harness.K1)
		c := u.Call(before + 1)
		wantNone(t, "what went upstream", string(c.Head), harness.K1)
		if c.Get("Authorization") != "Bearer "+harness.PK {
			t.Errorf("Authorization: %q", c.Get("Authorization"))
		}
	}
	for _, c := range u.Calls() {
		if c.Get("Cookie") != "" {
			t.Errorf("a cookie went upstream")
		}
	}
}

func TestB095SecretsInABaseURL(t *testing.T) {
	t.Parallel()
	const secret = "qk-7Hs9secret4query2Value"
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(500, "down"))
		g := harness.Start(t, u.URL(), harness.Config{"providers": []any{harness.Provider("up", u.URL()+"/v1?key="+secret)}})
		a := g.Chat(cc())
		wantNone(t, "the answer", dump(a), secret)
		g.Stop()
		wantNone(t, "the log", g.Log(), secret)
		if got := u.Call(1).Target; got != "/v1/chat/completions?key="+secret {
			t.Errorf("target %q", got)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		dead := up.Refused(t)
		withUser, err := url.Parse(dead)
		if err != nil {
			t.Fatal(err)
		}
		g := harness.Start(t, dead, harness.Config{"providers": []any{harness.Provider("up", withUser.String()+"/v1?key="+secret)}})
		a := g.Chat(cc())
		if a.Status != 502 {
			t.Errorf("%d", a.Status)
		}
		wantNone(t, "the answer", dump(a), secret, harness.PK)
		g.Stop()
		wantNone(t, "the log", g.Log(), secret)
	})
}

// The admin listener shows no key, and the files that the gateway writes hold
// none.
func TestB095SecretsAtRest(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	const key = "client-key-9Tg4Wq7Zb2"
	g.Chat(cc(), harness.Bearer(harness.K1), "Idempotency-Key: "+key)
	g.Chat(cc(), harness.Bearer(harness.K1), "Idempotency-Key: "+key)
	g.Stop()
	for name, text := range g.Files(t) {
		wantNone(t, name, text, harness.K1, harness.PK, key)
	}
}
