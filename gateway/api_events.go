package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"oncegate/cache"
)

const (
	eventsEvery   = 250 * time.Millisecond // an event at most: four a second
	eventsBacklog = 40                     // requests that are told after the fact, of those that a page has missed
	eventsViewers = 100                    // pages at once
	eventsWrite   = 5 * time.Second        // for a page to take one event
)

// tooManyPages refuses one more.
var tooManyPages = &refusal{status: 503, code: "overloaded", reason: reasonOverloaded, retry: true,
	message: fmt.Sprintf("%d pages read events already; close some", eventsViewers)}

// liveEvent is what the event request says.
type liveEvent struct {
	shownRequest
	Skipped int64 `json:"skipped"` // requests since the one that was told before, which are not told
}

// stream answers GET /api/events: events summary and request, until the client
// leaves or the gateway stops.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request) {
	_, refused := readQuery(r)
	if refused == nil && g.running.stopping() {
		refused = draining
	}
	if refused == nil {
		if g.live.viewers.Add(1) > eventsViewers {
			refused = tooManyPages
		}
		defer g.live.viewers.Add(-1)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	v := viewer{g: g, w: w, out: http.NewResponseController(w)}
	defer v.out.SetWriteDeadline(time.Time{})
	v.resume(r.Context(), r.Header.Get("Last-Event-ID")) // first, so that a page that has our head misses nothing
	if v.write("retry: 2000\n\n") != nil {
		return
	}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	for {
		if v.next(r.Context()) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-g.workers.stop:
			return
		}
	}
}

// viewer is one page that reads events.
type viewer struct {
	g     *Gateway
	w     http.ResponseWriter
	out   *http.ResponseController
	wrote time.Time

	missed  []cache.Request // to be told, the oldest first
	skipped int64           // that will not
	place   string          // of the last request that was told
	kept    int64           // how many the log had then
	summary time.Time       // when the one that was told was made
}

// resume finds what came since the event that the page had last. Without one
// the page begins with what is there.
func (v *viewer) resume(ctx context.Context, last string) {
	latest, kept := v.g.live.last(ctx, time.Now())
	v.place, v.kept = latest.Place, kept
	if last == "" || last == latest.Place {
		return
	}
	page, _, err := v.g.opt.Store.Requests(ctx, cache.RequestFilter{After: last}, "", cache.MostPage)
	if err != nil { // an id of another store
		return
	}
	if len(page) > 0 {
		v.place = page[0].Place // later than the latest of above, or the same
	}
	if len(page) > eventsBacklog {
		v.skipped = int64(len(page) - eventsBacklog) // or more: it is a page
		page = page[:eventsBacklog]
	}
	slices.Reverse(page)
	v.missed = page
}

// next writes one event if there is one to be told, or a sign of life.
func (v *viewer) next(ctx context.Context) error {
	now := time.Now()
	if text, made := v.g.live.current(ctx, now); text != nil && made.After(v.summary) {
		v.summary = made
		return v.write("event: summary\ndata: " + string(text) + "\n\n")
	}
	if len(v.missed) > 0 {
		r := &v.missed[0]
		v.missed = v.missed[1:]
		return v.tell(r)
	}
	if r, kept := v.g.live.last(ctx, now); r.Place != "" && r.Place != v.place {
		v.skipped += max(0, kept-v.kept-1)
		v.kept, v.place = kept, r.Place
		return v.tell(&r)
	}
	if now.Sub(v.wrote) >= v.g.opt.Heartbeat {
		return v.write(": nothing new\n\n")
	}
	return nil
}

func (v *viewer) tell(r *cache.Request) error {
	text, err := json.Marshal(liveEvent{showRequest(r, false), v.skipped})
	if err != nil {
		return err
	}
	v.skipped = 0
	return v.write("id: " + r.Place + "\nevent: request\ndata: " + string(text) + "\n\n")
}

func (v *viewer) write(text string) error {
	v.wrote = time.Now()
	if err := v.out.SetWriteDeadline(v.wrote.Add(eventsWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := v.w.Write([]byte(text)); err != nil {
		return err
	}
	return v.out.Flush()
}
