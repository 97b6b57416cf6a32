package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"oncegate/cache"
	"oncegate/providers"
)

const proberName = "probe" // the actor, in trails and in the audit

// find asks the API, and resolves the record by what it says: Completed,
// Released, or Unknown as before, if it does not have it and that proves nothing.
// why is a person's reason to ask.
func (t *tool) find(g *Gateway, rec *cache.Record, why string) (cache.State, error) {
	quiet := g.probes.quiet(rec, t) // as of before it is asked
	found, head, body, err := t.probe(g, rec)
	if err != nil {
		return cache.Unknown, err
	}
	r := cache.Resolution{Nonce: cache.NewNonce(), Fence: rec.Fence, Actor: proberName}
	switch {
	case found:
		r.Result = cache.Result{State: cache.Completed, Status: head.Status, Size: int64(len(body)), Sum: sha256.Sum256(body), Frames: []cache.Frame{
			{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}}}
		r.Keep, r.Memory = g.opt.ToolTTL, max(g.opt.ToolTTL, g.opt.Tombstone)
		r.Reason = "the API has it"
	case t.Probe.AbsentAfter > 0 && quiet >= t.Probe.AbsentAfter:
		r.Result.State = cache.Released
		r.Reason = "the API does not have it, " + t.Probe.AbsentAfter.String() + " after it was sent"
	default:
		return cache.Unknown, nil
	}
	if why != "" {
		r.Reason += "; asked for: " + why
	}
	return r.Result.State, g.opt.Store.Resolve(context.Background(), rec.Key, r)
}

// probe asks the API whether it executed a write.
func (t *tool) probe(g *Gateway, rec *cache.Record) (found bool, head *cache.Head, body []byte, _ error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.Policy.Timeouts.FirstByte)
	defer cancel()
	path, query, _ := strings.Cut(strings.ReplaceAll(rec.About.Probe, "{upstream_key}", g.upstreamKey(rec.Key, rec.Origin)), "?")
	answer, failed := t.Upstream.Try(ctx, &providers.ToolCall{Method: http.MethodGet, Path: path, Query: query, Header: http.Header{}})
	if failed != nil {
		return false, nil, nil, failed
	}
	defer answer.Close()
	switch status := answer.Status(); {
	case status == http.StatusNotFound:
		return false, nil, nil, nil
	case status < 200 || status > 299:
		return false, nil, nil, errors.New("it answered with status " + strconv.Itoa(status))
	}
	body, err := io.ReadAll(io.LimitReader(answer, g.opt.MaxAnswer-maxHead+1))
	if err != nil {
		return false, nil, nil, err
	}
	if int64(len(body)) > g.opt.MaxAnswer-maxHead {
		return false, nil, nil, errors.New("its answer is larger than store.max_body")
	}
	value, err := pointInto(body).at(t.Probe.Executed)
	if err != nil {
		return false, nil, nil, err
	}
	switch value.Kind() {
	case 0, 'n', 'f':
		return false, nil, nil, nil
	}
	if saysNothing(value) {
		return false, nil, nil, fmt.Errorf("probe.executed points at %s there, which may be so whether it happened or not: have it point at what is there only if it did, such as /data/0", value)
	}
	shared, _ := t.split(answer.Header())
	return true, &cache.Head{Status: answer.Status(), Header: shared, Target: t.Name}, body, nil
}

// saysNothing is of an empty text, a list of nothing, and how many there are of
// what is not there.
func saysNothing(value jsontext.Value) bool {
	if value.Kind() == '0' {
		n, err := strconv.ParseFloat(string(value), 64)
		return err == nil && n == 0
	}
	v, _ := canonical(value)
	return slices.Contains([]string{`""`, "[]", "{}"}, string(v))
}

// fillProbe puts values of a write's body where a probe's template points at
// them, escaped; {upstream_key} stays, to be filled in when it is asked. Empty: it
// can't be asked about, for a value is missing, or one that would ask about
// something else: an empty one about all, dots about what stands above.
func fillProbe(template string, body []byte) string {
	var b strings.Builder
	in := pointInto(body)
	for rest := template; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, tail, _ := strings.Cut(after, "}")
		if rest = tail; name == "upstream_key" {
			b.WriteString("{upstream_key}")
			continue
		}
		v, err := in.at(name)
		text := string(v)
		if err == nil && v.Kind() == '"' {
			var plain []byte
			plain, err = jsontext.AppendUnquote(nil, v)
			text = string(plain)
		}
		if kind := v.Kind(); err != nil || kind != '"' && kind != '0' || strings.Trim(text, ".") == "" {
			return ""
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(text), "+", "%20")) // fits a path and a query
	}
}
