package gateway

import (
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"oncegate/cache"
)

// testimony is what a person says of a write of unknown outcome.
type testimony struct {
	As     string  `json:"as"`
	Reason string  `json:"reason"`
	Actor  *string `json:"actor"`
	Fence  *uint64 `json:"fence"` // of the claim that was looked at; nil: the latest
	// What repeats are answered with, if it was executed. Without a body they
	// are told that the answer is gone.
	Status      *int    `json:"status"`
	Body        *string `json:"body"`
	ContentType *string `json:"content_type"`
}

// Bounds of what people write, in characters.
const (
	defaultActor = "operator"
	mostReason   = 1000
	mostActor    = 200
)

// state is what the record becomes.
func (t *testimony) state() string {
	switch {
	case t.As != asExecuted:
		return "released"
	case t.Body == nil: // there is no answer to keep
		return recordStates[cache.Tombstone]
	}
	return recordStates[cache.Completed]
}

// check refuses what makes no sense, and fills in what may be left out. most
// is the largest body, in bytes.
func (t *testimony) check(most int64) *refusal {
	switch n := utf8.RuneCountInString(t.Reason); {
	case t.As != asExecuted && t.As != asNotExecuted:
		return badBody("as must be executed or not-executed: what you found out at the upstream", "as")
	case strings.TrimSpace(t.Reason) == "" || n > mostReason:
		return badBody("reason must say how you know, in 1 to "+strconv.Itoa(mostReason)+" characters", "reason")
	}
	if t.Actor != nil && (strings.TrimSpace(*t.Actor) == "" || utf8.RuneCountInString(*t.Actor) > mostActor) {
		return badBody("actor is who says so, in 1 to "+strconv.Itoa(mostActor)+" characters; leave it out for "+defaultActor, "actor")
	}
	if t.Fence != nil && *t.Fence == 0 {
		return badBody("fence is the record's, from 1; leave it out for the latest", "fence")
	}
	return t.checkAnswer(most)
}

// checkAnswer checks what repeats are to be answered with.
func (t *testimony) checkAnswer(most int64) *refusal {
	if t.As == asNotExecuted {
		for name, given := range map[string]bool{"status": t.Status != nil, "body": t.Body != nil, "content_type": t.ContentType != nil} {
			if given {
				return badBody(name+" is for executed: what was not executed has no answer; leave it out", name)
			}
		}
		return nil
	}
	if t.Body == nil {
		switch {
		case t.Status != nil:
			return badBody(`status needs a body beside it, which may be ""; leave both out and repeats get 410 result_gone`, "body")
		case t.ContentType != nil:
			return badBody("content_type needs a body beside it", "body")
		}
		return nil
	}
	if t.Status == nil {
		ok := http.StatusOK
		t.Status = &ok
	}
	switch s := *t.Status; {
	case s < 200 || s > 499:
		return badBody("status must be one that the write was answered with, 200 to 499", "status")
	case (s == http.StatusNoContent || s == http.StatusNotModified) && *t.Body != "":
		return badBody(strconv.Itoa(s)+` has no body: make it ""`, "body")
	case int64(len(*t.Body)) > most:
		return badBody("body is larger than the "+strconv.FormatInt(most, 10)+" bytes that are kept (store.max_body); leave status and body out, and repeats get 410 result_gone", "body")
	}
	return t.checkType()
}

// checkType checks the media type of the answer. A body that is there has one.
func (t *testimony) checkType() *refusal {
	if t.ContentType == nil {
		if *t.Body == "" {
			return nil
		}
		usual := "application/json"
		t.ContentType = &usual
	}
	kind, _, err := mime.ParseMediaType(*t.ContentType)
	if err != nil || !strings.Contains(kind, "/") || len(*t.ContentType) > 200 || strings.ContainsFunc(*t.ContentType, func(c rune) bool { return c < ' ' || c > '~' }) {
		return badBody("content_type is a media type, as text/plain; charset=utf-8", "content_type")
	}
	if kind == "application/json" && !jsontext.Value(*t.Body).IsValid() {
		return badBody("body is not JSON: say what it is by content_type, as text/plain", "body")
	}
	return nil
}

// readChange reads the body of a request that changes something. A page can
// send a form or a text anywhere, and JSON only where it is allowed to.
func (g *Gateway) readChange(w http.ResponseWriter, r *http.Request) ([]byte, func(), *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil, badHeader("Content-Type", "application/json")
	}
	if _, refused := readQuery(r); refused != nil {
		return nil, nil, refused
	}
	return g.readBody(w, r)
}

// readNothing reads the body of a change that has nothing to say: {}, or none.
func (g *Gateway) readNothing(w http.ResponseWriter, r *http.Request) *refusal {
	body, release, refused := g.readChange(w, r)
	if refused != nil {
		return refused
	}
	defer release()
	if len(body) == 0 {
		return nil
	}
	if refused = readJSON(body, &struct{}{}); refused != nil {
		refused.message = "the body is {}: there is nothing to be said here"
	}
	return refused
}

// readReason reads the body of a change for which a reason may be given.
func (g *Gateway) readReason(w http.ResponseWriter, r *http.Request) (reason string, _ *refusal) {
	body, release, refused := g.readChange(w, r)
	if refused != nil {
		return "", refused
	}
	defer release()
	if len(body) == 0 {
		return "", nil
	}
	var said struct {
		Reason string `json:"reason"`
	}
	if refused := readJSON(body, &said); refused != nil {
		return "", refused
	}
	if utf8.RuneCountInString(said.Reason) > mostReason {
		return "", badBody("reason has at most "+strconv.Itoa(mostReason)+" characters", "reason")
	}
	return strings.TrimSpace(said.Reason), nil
}

// readJSON reads an object whose fields are into's and no others.
func readJSON(text []byte, into any) *refusal {
	err := json.Unmarshal(text, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return malformed(bad.ByteOffset, bad.Err)
	}
	bad, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return badBody("the body can't be read: "+err.Error(), "")
	}
	name := clip([]byte(bad.JSONPointer.LastToken()), 50)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return badBody(strconv.Quote(name)+" is no field here; fields are "+strings.Join(fieldsOf(reflect.TypeOf(into).Elem()), ", "), name)
	case name == "":
		return badBody("the body must be a JSON object with "+strings.Join(fieldsOf(reflect.TypeOf(into).Elem()), ", "), "")
	}
	return badBody(name+" must be "+kindWanted(bad.GoType), name)
}

// fieldsOf names the fields of a JSON object.
func fieldsOf(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, fieldsOf(f.Type)...)
			continue
		}
		names = append(names, f.Tag.Get("json"))
	}
	return names
}

func kindWanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "of another kind"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "of another kind"
}
