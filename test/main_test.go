// Package test holds the black-box tests: written from the contract and run
// against the real binary and a scripted upstream.
package test

import (
	"strings"
	"testing"

	"oncegate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// cc is the body of a chat completion, with further members.
func cc(members ...string) string { return said("hi", members...) }

// said is cc with that text.
func said(text string, members ...string) string {
	return "{" + strings.Join(append([]string{
		`"model":"m1"`, `"messages":[{"role":"user","content":"` + text + `"}]`,
	}, members...), ",") + "}"
}

// stream is the member that asks for a stream.
const stream = `"stream":true`

// message is the body of a call on Anthropic's surface.
const message = `{"model":"m1","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`

// words joins the content of the chunks among events.
func words(events []string) string {
	var out strings.Builder
	for _, e := range events {
		out.WriteString(content(e))
	}
	return out.String()
}
