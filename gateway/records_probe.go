package gateway

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"oncegate/cache"
)

// probed is what a probe that was asked for found.
type probed struct {
	Key   string `json:"key"`
	Found bool   `json:"found"` // the API has it: it happened
	State string `json:"state"` // completed; released: it did not happen; unknown: that it is not there proves nothing yet
}

// probeOne answers POST /api/records/{key}/probe: it asks the tool's API now
// what became of a write of unknown outcome. The audit has why it was asked.
func (g *Gateway) probeOne(w http.ResponseWriter, r *http.Request, name string) {
	key, refused := readKey(name)
	reason := ""
	if refused == nil {
		reason, refused = g.readReason(w, r)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	out, refused := g.probeRecord(context.WithoutCancel(r.Context()), key, reason)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	writeFresh(w, out)
}

func (g *Gateway) probeRecord(ctx context.Context, key cache.Key, reason string) (out probed, _ *refusal) {
	rec, err := g.opt.Store.Record(ctx, key)
	if err != nil || recordStates[rec.State] == "" {
		return out, unread(err)
	}
	if rec.State != cache.Unknown {
		return out, g.notUnknown(ctx, key, rec.Fence)
	}
	t := g.tools[rec.About.Tool]
	if t == nil || t.Probe == nil || rec.About.Probe == "" {
		return out, &refusal{status: http.StatusConflict, code: "no_probe", reason: reasonBadRequest,
			message: "nobody can be asked about it: the tool has no probe, or the write lacked a value that the probe needs; resolve it by hand"}
	}
	state, err := t.find(g, &rec, reason)
	switch {
	case errors.Is(err, cache.ErrSettled), errors.Is(err, cache.ErrFenced):
		return out, g.notUnknown(ctx, key, rec.Fence)
	case errors.Is(err, cache.ErrNone):
		return out, noRecord
	case errors.Is(err, cache.ErrAway):
		return out, unread(err)
	case err != nil:
		g.log.Info("a probe that was asked for learned nothing", zap.String("tool", t.Name), zap.String("key", keyText(key)), zap.Error(err))
		return out, &refusal{status: http.StatusBadGateway, code: "upstream_error", reason: reasonBadRequest,
			message: "the probe learned nothing, and the outcome is as unknown as it was: " + clip([]byte(err.Error()), 300)}
	}
	out = probed{Key: keyText(key), Found: state == cache.Completed, State: recordStates[state]}
	if state == cache.Released {
		out.State = "released"
	}
	return out, nil
}
