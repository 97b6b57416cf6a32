package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"oncegate/cache"
)

// resolved is what came of a resolution.
type resolved struct {
	Key   string `json:"key"`
	State string `json:"state"` // completed, tombstone or released
	As    string `json:"as"`
}

// resolveOne answers POST /api/records/{key}/resolve.
func (g *Gateway) resolveOne(w http.ResponseWriter, r *http.Request, name string) {
	key, refused := readKey(name)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	body, release, refused := g.readChange(w, r)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	defer release()
	var said testimony
	if refused = readJSON(body, &said); refused == nil {
		refused = g.resolve(r.Context(), key, &said)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	writeFresh(w, resolved{keyText(key), said.state(), said.As})
}

// mostResolved is how many records are resolved by one request.
const mostResolved = 200

// resolvedItem is what came of one of several. Status is that of a request of
// its own.
type resolvedItem struct {
	Key    string         `json:"key"`
	Status int            `json:"status"`
	State  string         `json:"state,omitempty"`
	As     string         `json:"as,omitempty"`
	Error  *resolvedFault `json:"error,omitempty"`
}

type resolvedFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
}

// resolveSeveral answers POST /api/records/resolve. Each is resolved by
// itself: one that can't be is told beside the others.
func (g *Gateway) resolveSeveral(w http.ResponseWriter, r *http.Request, _ string) {
	body, release, refused := g.readChange(w, r)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	defer release()
	var ask struct {
		Resolve []jsontext.Value `json:"resolve"`
	}
	if refused = readJSON(body, &ask); refused == nil && (len(ask.Resolve) == 0 || len(ask.Resolve) > mostResolved) {
		refused = badBody(fmt.Sprintf(`resolve is a list of 1 to %d, each with a "key" and what is said of it`, mostResolved), "resolve")
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	list := struct {
		Results []resolvedItem `json:"results"`
	}{make([]resolvedItem, len(ask.Resolve))}
	for i, text := range ask.Resolve {
		list.Results[i] = g.resolveItem(r.Context(), text)
	}
	writeFresh(w, list)
}

func (g *Gateway) resolveItem(ctx context.Context, text []byte) resolvedItem {
	var item struct {
		Key string `json:"key"`
		testimony
	}
	var key cache.Key
	refused := readJSON(text, &item)
	if refused == nil {
		key, refused = readKey(item.Key)
	}
	if refused == nil {
		refused = g.resolve(ctx, key, &item.testimony)
	}
	out := resolvedItem{Key: clip([]byte(item.Key), 100), Status: http.StatusOK, State: item.state(), As: item.As}
	if refused != nil {
		out = resolvedItem{Key: out.Key, Status: refused.status, Error: &resolvedFault{refused.code, refused.message, refused.param}}
	}
	return out
}

// resolveTries is how often a step whose answer was lost is sent, with the
// same nonce, before its caller is told that nobody knows.
const resolveTries = 3

// resolve ends an unknown outcome as its caller says.
func (g *Gateway) resolve(ctx context.Context, key cache.Key, said *testimony) *refusal {
	if refused := said.check(g.opt.MaxAnswer); refused != nil {
		return refused
	}
	ctx = context.WithoutCancel(ctx) // a client that leaves has said it
	rec, err := g.opt.Store.Record(ctx, key)
	switch {
	case errors.Is(err, cache.ErrNone) && g.freed(ctx, key) != nil:
		return g.notUnknown(ctx, key, 0)
	case err != nil || recordStates[rec.State] == "":
		return unread(err)
	}
	res := said.resolution(&rec)
	res.Keep, res.Memory = g.opt.ToolTTL, max(g.opt.ToolTTL, g.opt.Tombstone)
	for range resolveTries {
		if err = g.opt.Store.Resolve(ctx, key, res); !errors.Is(err, cache.ErrAway) {
			break
		}
	}
	switch {
	case err == nil:
		g.log.Info("an unknown outcome was resolved", zap.String("key", keyText(key)),
			zap.String("as", said.As), zap.String("actor", res.Actor), zap.String("tool", rec.About.Tool))
		return nil
	case errors.Is(err, cache.ErrSettled), errors.Is(err, cache.ErrFenced), errors.Is(err, cache.ErrNone): // it was there just now
		return g.notUnknown(ctx, key, res.Fence)
	}
	return &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
		message: "the store did not say that it has it: look at the record before you try again: " + err.Error()}
}

// notUnknown says what a record is whose outcome was to be resolved and is not
// unknown, or not that of the claim that was meant.
func (g *Gateway) notUnknown(ctx context.Context, key cache.Key, meant cache.Fence) *refusal {
	p := &refusal{status: http.StatusConflict, code: "outcome_not_unknown", reason: reasonBadRequest,
		message: "its outcome is not unknown, and nothing was changed"}
	rec, err := g.opt.Store.Record(ctx, key)
	switch word := recordStates[rec.State]; {
	case err != nil || word == "":
		if a := g.freed(ctx, key); a != nil {
			p.message += fmt.Sprintf(": %s said that it did not happen, and its key is free", clip([]byte(a.Actor), 100))
		}
	case rec.State == cache.Unknown:
		p.message = fmt.Sprintf("it was run again: the outcome that is unknown is that of fence %d, not %d; look at it anew", rec.Fence, meant)
	default:
		p.message = "its outcome is not unknown, and nothing was changed: it is " + word
	}
	return p
}

// freed is the latest decision, if it is one of the last few, that gave a key
// free: there is no record of it any more.
func (g *Gateway) freed(ctx context.Context, key cache.Key) *cache.Audit {
	list, _, err := g.opt.Store.Audits(ctx, "", mostPage)
	for i := range list {
		if a := &list[i]; err == nil && a.Key == key && a.As == cache.StepReleased {
			return a
		}
	}
	return nil
}

// resolution is what the store is told.
func (t *testimony) resolution(rec *cache.Record) cache.Resolution {
	res := cache.Resolution{Nonce: cache.NewNonce(), Fence: rec.Fence, Actor: defaultActor, Reason: t.Reason}
	if t.Actor != nil {
		res.Actor = *t.Actor
	}
	if t.Fence != nil {
		res.Fence = cache.Fence(*t.Fence)
	}
	res.Result.State = cache.Released
	if t.As == asNotExecuted {
		return res
	}
	res.Result.State = cache.Completed
	if t.Body == nil {
		return res // a repeat is told that the answer is gone
	}
	body := []byte(*t.Body)
	res.Result.Status, res.Result.Size, res.Result.Sum = *t.Status, int64(len(body)), sha256.Sum256(body)
	head := &cache.Head{Status: *t.Status, Header: map[string][]string{}, Target: rec.About.Tool, Attempts: dispatches(rec.Trail)}
	if t.ContentType != nil {
		head.Header["Content-Type"] = []string{*t.ContentType}
	}
	res.Result.Frames = []cache.Frame{{Kind: cache.HeadFrame, Head: head}}
	if len(body) > 0 {
		res.Result.Frames = append(res.Result.Frames, cache.Frame{Kind: cache.BodyFrame, Data: body})
	}
	return res
}

// dispatches counts how often a record's write was sent, as far as its trail
// goes back.
func dispatches(trail []cache.Step) int {
	n := 0
	for _, s := range trail {
		if s.What == cache.StepDispatched {
			n++
		}
	}
	return max(1, n)
}
