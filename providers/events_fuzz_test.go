package providers

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oncegate/policy"
)

// cuts is a body that comes in parts.
type cuts struct{ parts [][]byte }

func (c *cuts) Read(p []byte) (int, error) {
	for len(c.parts) > 0 && len(c.parts[0]) == 0 {
		c.parts = c.parts[1:]
	}
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.parts[0])
	c.parts[0] = c.parts[0][n:]
	return n, nil
}

func (c *cuts) Close() error { return nil }

// FuzzStream: wherever a stream is cut, its reader gets the same bytes and
// the same end; the bytes are the upstream's own, but for the [DONE] and the
// line ends that were missing at its end.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		role + text("a") + finish + used + done, text("a") + finish, ": x\r\n\r\n" + strings.ReplaceAll(text("a")+done, "\n", "\r\n"),
		text("a") + data(`{"error":{"code":503}}`), "event: error\ndata: x\n\n", "\xef\xbb\xbf" + strings.ReplaceAll(text("a")+finish, "\n", "\r"),
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "data: {\"type\":\"response.completed\"}\n\n",
	} {
		f.Add([]byte(s), uint8(Chat), uint16(20), uint16(30))
		f.Add([]byte(s), uint8(Responses), uint16(1), uint16(3))
		f.Add([]byte(s), uint8(Messages), uint16(7), uint16(90))
		f.Add([]byte(s), uint8(Raw), uint16(7), uint16(90))
	}
	f.Fuzz(func(t *testing.T, in []byte, w uint8, a, b uint16) {
		i := int(a) % (len(in) + 1)
		j := i + int(b)%(len(in)-i+1)
		whole, end, failure := readCuts(t, Wire(w%13), in)
		parts, endParts, failureParts := readCuts(t, Wire(w%13), in[:i], in[i:j], in[j:])
		// The LF of a CR LF cut in two is not waited for, where the answer is over.
		if failure != nil && failureParts != nil {
			whole, parts = bytes.TrimRight(whole, "\r\n"), bytes.TrimRight(parts, "\r\n")
		} else if bytes.HasSuffix(whole, []byte("\r\n")) && bytes.HasSuffix(parts, []byte("\r")) {
			whole = whole[:len(whole)-1]
		}
		if !bytes.Equal(whole, parts) || end != endParts {
			t.Fatalf("cut at %d and %d: %q %+v, uncut: %q %+v", i, j, parts, endParts, whole, end)
		}
		if (failure == nil) != (failureParts == nil) || failure != nil && (failure.Status != failureParts.Status || failure.Phase != failureParts.Phase) {
			t.Fatalf("cut at %d and %d: %+v, uncut: %+v", i, j, failureParts, failure)
		}
		for _, added := range []string{"", "\n", "\n\n", doneEvent, "\n" + doneEvent, "\n\n" + doneEvent} {
			if own, ok := bytes.CutSuffix(whole, []byte(added)); ok && bytes.HasPrefix(in, own) {
				return
			}
		}
		t.Fatalf("%q became %q", in, whole)
	})
}

func readCuts(t testing.TB, w Wire, parts ...[]byte) ([]byte, End, *Error) {
	copied := make([][]byte, len(parts))
	for i, p := range parts {
		copied[i] = bytes.Clone(p)
	}
	at := &attempt{
		to: &endpoint{name: "up", timeouts: policy.Defaults().Timeouts}, wire: w, parent: t.Context(),
		release:  func() bool { return true },
		response: &http.Response{StatusCode: 200, Body: &cuts{parts: copied}},
	}
	at.start = time.Now()
	e := newEvents(at)
	defer e.finish(false)
	var all []byte
	for {
		p, err := e.Next()
		if err != nil {
			return all, End{}, err
		}
		all = append(all, p.Data...)
		if _, timed := t.(*testing.B); !timed {
			spoil(p.Data)
		}
		if p.Last {
			return all, e.End(), nil
		}
	}
}
