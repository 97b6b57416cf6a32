package providers

import (
	"bytes"
	"io"

	"oncegate/policy"
)

// whole is an answer that is no stream: read to its end and judged before any
// of it is given out. One larger than what is judged is given on as it comes.
type whole struct {
	*attempt
	media string
	rest  *pieces // of an answer too large to be judged
	over  bool
	end   End
}

func (w *whole) Events() bool { return false }
func (w *whole) Close()       { w.finish(w.over || w.rest != nil && w.rest.over) }

func (w *whole) End() End {
	if w.rest != nil {
		return w.rest.end
	}
	return w.end
}

func (w *whole) Next() (Piece, *Error) {
	if w.rest != nil {
		return w.rest.Next()
	}
	if w.over {
		return Piece{Last: true}, nil
	}
	body, more, err := w.gather()
	switch {
	case err != nil:
		return Piece{}, w.broken(err)
	case more:
		w.rest = &pieces{attempt: w.attempt}
		return Piece{Data: body}, nil
	}
	w.over = true
	if failed := w.judge(body); failed != nil {
		return Piece{}, failed
	}
	return Piece{Data: body, Last: true}, nil
}

// gather reads the body up to its end, or up to the size that is judged:
// then more is set.
func (w *whole) gather() (body []byte, more bool, err error) {
	limit := w.maxJudged
	size := int64(2 << 10)
	if n := w.response.ContentLength; n >= 0 && w.decoder == nil {
		size = n + 1 // the end shows without growing
	}
	body = make([]byte, 0, min(size, limit+1))
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := w.read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, false, nil
		case err != nil:
			return nil, false, err
		case int64(len(body)) > limit:
			return body, true, nil
		}
	}
}

// judge says whether a whole answer is one. It sets w.end.
func (w *whole) judge(body []byte) *Error {
	if w.wire == Transcriptions && !isJSON(w.media) {
		w.end.Whole = true // plain text or subtitles; silence is an empty one
		return nil
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return w.unusable("with an empty body", nil)
	}
	v, ok := judgeJSON(w.wire, body)
	switch {
	case !ok:
		return w.unusable("with something that is not JSON", body)
	case v.fault:
		return w.errorInside(policy.Answered, bytes.TrimSpace(body))
	case v.missing != "":
		return w.unusable("without "+v.missing, body)
	}
	w.end = v.end
	return nil
}
