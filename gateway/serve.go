package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"go.uber.org/zap"
)

// serve answers one request to an operation.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, op *operation) {
	ev := newEvent(op)
	defer g.recoverTo(w, ev)
	if why := g.path(w, r, ev); why != nil {
		refuse(w, ev, why)
		g.finish(ev)
	}
}

// refuse answers a request that comes to no operation's path.
func (g *Gateway) refuse(w http.ResponseWriter, op *operation, p *refusal) {
	ev := newEvent(op)
	refuse(w, ev, p)
	g.finish(ev)
}

// recoverTo answers a request whose handling panicked with a 500, where
// nothing was sent yet.
func (g *Gateway) recoverTo(w http.ResponseWriter, ev *event) {
	p := recover()
	switch {
	case p == nil:
		return
	case p == http.ErrAbortHandler:
		panic(p)
	}
	g.tellPanic(p)
	if ev.status != 0 { // it is out
		ev.outcome = outcomeFailed
		g.finish(ev)
		panic(http.ErrAbortHandler)
	}
	refuse(w, ev, internal)
	g.finish(ev)
}

func (g *Gateway) tellPanic(p any) {
	g.log.Error("a request panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
}
