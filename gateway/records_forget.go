package gateway

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"oncegate/cache"
)

// forgetting is what is said when a completion is to be forgotten.
type forgetting struct {
	Reason string  `json:"reason"`
	Actor  *string `json:"actor"`
}

// forgetOne answers POST /api/records/{key}/forget: the kept answer of a
// completion goes, and the next caller runs it anew.
func (g *Gateway) forgetOne(w http.ResponseWriter, r *http.Request, name string) {
	key, refused := readKey(name)
	if refused == nil {
		refused = g.readForgetting(w, r, key)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	writeFresh(w, struct {
		Key       string `json:"key"`
		Forgotten bool   `json:"forgotten"`
	}{keyText(key), true})
}

func (g *Gateway) readForgetting(w http.ResponseWriter, r *http.Request, key cache.Key) *refusal {
	body, release, refused := g.readChange(w, r)
	if refused != nil {
		return refused
	}
	defer release()
	var said forgetting
	if refused = readJSON(body, &said); refused != nil {
		return refused
	}
	// As of a testimony: who says it, and why.
	why := testimony{As: asNotExecuted, Reason: said.Reason, Actor: said.Actor}
	if refused = why.check(g.opt.MaxAnswer); refused != nil {
		return refused
	}
	actor := defaultActor
	if said.Actor != nil {
		actor = *said.Actor
	}
	return g.forget(context.WithoutCancel(r.Context()), key, actor, said.Reason)
}

func (g *Gateway) forget(ctx context.Context, key cache.Key, actor, reason string) *refusal {
	err := g.opt.Store.Forget(ctx, key, actor, reason)
	switch {
	case err == nil:
		g.log.Info("a completion was forgotten", zap.String("key", keyText(key)), zap.String("actor", actor))
		return nil
	case !errors.Is(err, cache.ErrNone):
		return &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
			message: "the store did not say that it has forgotten it: look at the record before you try again: " + err.Error()}
	}
	if rec, err := g.opt.Store.Record(ctx, key); err == nil && recordStates[rec.State] != "" {
		return &refusal{status: http.StatusConflict, code: "write_not_forgotten", reason: reasonBadRequest,
			message: "this is the record of a write, and a used key is not forgotten: the write would run again"}
	}
	return notFound("there is no completion under this key that is settled and kept: it is forgotten, or still runs")
}
