package providers

import (
	"fmt"
	"net/http"
)

// answered takes a response apart: an error by its status, else the answer
// as its Content-Type says it is to be read.
func (a *attempt) answered(c *Call) (Answer, *Error) {
	known := a.decode()
	encoding := a.response.Header.Get("Content-Encoding")
	a.header = kept(a.response.Header)
	if a.response.StatusCode < 200 { // 101 would leave us with a bare connection
		e := a.unusable(fmt.Sprintf("with status %03d", a.response.StatusCode), nil)
		a.finish(false)
		return nil, e
	}
	if a.response.StatusCode > 299 {
		return nil, a.refused()
	}
	if !known {
		e := a.unusable("in the encoding "+encoding+", which was not asked for", nil)
		a.finish(false)
		return nil, e
	}
	media := mediaType(a.header)
	switch {
	case c.Method == http.MethodHead:
		return &pieces{attempt: a}, nil
	case media == "text/event-stream":
		return newEvents(a), nil
	case a.wire == Raw:
		return &pieces{attempt: a}, nil
	case c.Stream && (media == "" || media == "text/plain"):
		// Some servers stream events without saying so.
		a.header["Content-Type"] = eventStream
		return newEvents(a), nil
	case a.wire == Speech && !isJSON(media):
		return &pieces{attempt: a, needs: true}, nil
	default:
		return &whole{attempt: a, media: media}, nil
	}
}

func (a *attempt) Status() int         { return a.response.StatusCode }
func (a *attempt) Header() http.Header { return a.header }
