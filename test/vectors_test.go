package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The files are other people's, under their own licences, which lie beside
// them: nst/JSONTestSuite and httpwg/structured-field-tests.

// A file's name begins with y (must parse), n (must not) or i (either). Each is
// sent twice: as a whole body, and as one member of a good request.
func TestVectorsJSONParsing(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	files, err := filepath.Glob("testdata/json-parsing/*.json")
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	forwarded := 0
	for _, file := range files {
		vector, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		wrapped := `{"model":"m1","messages":[],"name":"` + strings.ToValidUTF8(strings.NewReplacer(`"`, "", `\`, "").Replace(name), "") + `","x":` + string(vector) + `}`
		for _, body := range []string{string(vector), wrapped} {
			before := u.N()
			a := g.Chat(body)
			good := body == wrapped && json.Valid([]byte(body))
			switch {
			case a.Status >= 500:
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			case a.Status == 400:
				problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}.want(t, a)
				wantUnseen(t, u, before)
				if name[0] == 'y' && body == wrapped {
					t.Errorf("%s: refused: %s", name, a.Body)
				}
			case a.Status == 200:
				if name[0] == 'n' && !good || body != wrapped {
					t.Errorf("%s: went upstream", name)
				}
				if u.N() != before+1 {
					t.Errorf("%s: %d calls", name, u.N()-before)
					continue
				}
				wantSent(t, u, before+1, body)
				forwarded++
			default:
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
	}
	if forwarded < 90 {
		t.Errorf("%d were forwarded", forwarded)
	}
}

// An Idempotency-Key may be bare or a quoted structured-field string.
func TestVectorsStructuredFieldStrings(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return up.OK(number(c.N)) })
	g := harness.Start(t, u.URL())
	total := 0
	for _, file := range []string{"string.json", "string-generated.json"} {
		text, err := os.ReadFile(filepath.Join("testdata/structured-fields", file))
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct {
			Name     string   `json:"name"`
			Raw      []string `json:"raw"`
			Expected []any    `json:"expected"`
			MustFail bool     `json:"must_fail"`
		}
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatal(err)
		}
		total += len(vectors)
		for i, v := range vectors {
			body := said(fmt.Sprint(file, i))
			var lines []string
			for _, raw := range v.Raw {
				// The vectors give each byte of the header as one character.
				var value strings.Builder
				for _, r := range raw {
					value.WriteByte(byte(r))
				}
				lines = append(lines, "Idempotency-Key: "+value.String())
			}
			send := func(lines ...string) *harness.Answer {
				conn := g.Dial()
				defer conn.Close()
				conn.Send(g.Request("POST", harness.Chat, body, append(lines, "Connection: close")...))
				return conn.Response(10 * time.Second)
			}
			before := u.Heads()
			a := send(lines...)
			key, ok := "", false
			if !v.MustFail && len(v.Expected) > 0 {
				key, ok = v.Expected[0].(string)
			}
			bare := strings.TrimSpace(v.Raw[0])
			if len(v.Raw) == 1 && !strings.HasPrefix(bare, `"`) {
				key, ok = bare, true
			}
			if !ok || !visible(key) || len(v.Raw) > 1 {
				if a.Status != 400 {
					t.Errorf("%s %q: %d %s %v, want 400", v.Name, v.Raw, a.Status, a.Body, a.Err)
				}
				wantUnseen(t, u, before)
				continue
			}
			if a.Status != 200 || a.Outcome() != "executed" {
				t.Errorf("%s %q: %d %q %s", v.Name, v.Raw, a.Status, a.Outcome(), a.Body)
				continue
			}
			if strings.HasPrefix(key, `"`) {
				continue // bare it would be read as quoted
			}
			// The string and the bare key that it stands for are one key.
			wantText(t, send("Idempotency-Key: "+key), a.Text(), "replayed", "key")
		}
	}
	if total < 250 {
		t.Errorf("%d vectors", total)
	}
}

// visible says that a key is one: 1 to 255 visible ASCII characters.
func visible(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] >= 0x7f {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= 255
}
