//go:build sdk

package sdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
)

// An answer is a whole 2xx body: one piece, or one a chunk or event.
type answer struct {
	contentType string
	pieces      [][]byte
}

// operations are the answers by path after /v1. They depend on nothing but
// the request and the number of the call.
var operations = map[string]func(request) answer{
	"/chat/completions":      chat,
	"/completions":           completions,
	"/responses":             responses,
	"/embeddings":            embeddings,
	"/moderations":           moderations,
	"/images/generations":    images,
	"/audio/speech":          speech,
	"/audio/transcriptions":  transcriptions,
	"/messages":              messages,
	"/messages/count_tokens": countTokens,
}

// created is the time that every answer claims; an SDK compares nothing with it.
const created = 1760000000

type object = map[string]any

// words is the text of an answer, in the pieces that a stream sends it in. It
// has the number of its call, and what breaks careless relays: non-ASCII,
// quotes, newlines, a line that looks like an SSE field.
func words(r request) []string {
	return strings.SplitAfter("To "+r.asked()+" I say for the "+strconv.Itoa(r.n)+"th time: žluťoučký 🦊 \"quoted\" \\ \ndata: [DONE]\n\nand done.", " ")
}

func text(r request) string { return strings.Join(words(r), "") }

func whole(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return answer{"application/json", [][]byte{body}}
}

// events is a stream of unnamed events that ends with [DONE], OpenAI's older form.
func events(chunks ...object) answer {
	a := answer{contentType: "text/event-stream; charset=utf-8"}
	for _, c := range chunks {
		a.pieces = append(a.pieces, []byte("data: "+string(whole(c).pieces[0])+"\n\n"))
	}
	a.pieces = append(a.pieces, []byte("data: [DONE]\n\n"))
	return a
}

// typedEvents is a stream of events named by their type, as responses,
// messages and transcriptions send it.
func typedEvents(chunks ...object) answer {
	a := answer{contentType: "text/event-stream; charset=utf-8"}
	for _, c := range chunks {
		a.pieces = append(a.pieces, []byte("event: "+c["type"].(string)+"\ndata: "+string(whole(c).pieces[0])+"\n\n"))
	}
	return a
}

func chat(r request) answer {
	usage := object{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
	finish := "stop"
	message := object{"role": "assistant", "content": text(r), "refusal": nil}
	var tools []object
	if r.tool != "" {
		finish = "tool_calls"
		tools = []object{{"index": 0, "id": "call-" + r.id, "type": "function", "function": object{"name": r.tool, "arguments": `{"amount":5}`}}}
		message = object{"role": "assistant", "content": nil, "refusal": nil, "tool_calls": tools}
	}
	if !r.Stream {
		return whole(object{
			"id": "chatcmpl-" + r.id, "object": "chat.completion", "created": created, "model": r.Model,
			"choices": []object{{"index": 0, "finish_reason": finish, "logprobs": nil, "message": message}},
			"usage":   usage, "vendor_field": object{"kept": 9007199254740993},
		})
	}
	chunk := func(choices []object) object {
		c := object{"id": "chatcmpl-" + r.id, "object": "chat.completion.chunk", "created": created, "model": r.Model, "choices": choices}
		if r.StreamOptions.IncludeUsage {
			c["usage"] = nil
		}
		return c
	}
	choice := func(delta object, finish any) []object {
		return []object{{"index": 0, "delta": delta, "finish_reason": finish}}
	}
	chunks := []object{chunk(choice(object{"role": "assistant", "content": ""}, nil))}
	if tools != nil {
		chunks = append(chunks, chunk(choice(object{"tool_calls": tools}, nil)))
	} else {
		for _, w := range words(r) {
			chunks = append(chunks, chunk(choice(object{"content": w}, nil)))
		}
	}
	chunks = append(chunks, chunk(choice(object{}, finish)))
	if r.StreamOptions.IncludeUsage {
		last := chunk([]object{})
		last["usage"] = usage
		chunks = append(chunks, last)
	}
	return events(chunks...)
}

func completions(r request) answer {
	completion := func(text string, finish any) object {
		return object{
			"id": "cmpl-" + r.id, "object": "text_completion", "created": created, "model": r.Model,
			"choices": []object{{"index": 0, "text": text, "finish_reason": finish, "logprobs": nil}},
		}
	}
	usage := object{"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
	if !r.Stream {
		c := completion(text(r), "stop")
		c["usage"] = usage
		return whole(c)
	}
	var chunks []object
	for _, w := range words(r) {
		chunks = append(chunks, completion(w, nil))
	}
	chunks = append(chunks, completion("", "stop"))
	if r.StreamOptions.IncludeUsage {
		last := completion("", nil)
		last["choices"], last["usage"] = []object{}, usage
		chunks = append(chunks, last)
	}
	return events(chunks...)
}

func responses(r request) answer {
	response := func(status string, output []object) object {
		return object{
			"id": "resp-" + r.id, "object": "response", "created_at": created, "status": status, "model": r.Model,
			"output": output, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
			"parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": []object{}, "top_p": 1.0,
		}
	}
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []object{}}
	}
	item := func(status string, content ...object) object {
		return object{"type": "message", "id": "msg-" + r.id, "status": status, "role": "assistant", "content": content}
	}
	output := item("completed", part(text(r)))
	if r.tool != "" {
		output = object{
			"type": "function_call", "id": "fc-" + r.id, "call_id": "call-" + r.id, "status": "completed", "name": r.tool,
			"arguments": `{"amount":5}`,
		}
	}
	done := response("completed", []object{output})
	done["usage"] = object{
		"input_tokens": 11, "input_tokens_details": object{"cached_tokens": 3},
		"output_tokens": 7, "output_tokens_details": object{"reasoning_tokens": 2}, "total_tokens": 18,
	}
	if !r.Stream {
		return whole(done)
	}
	var chunks []object
	add := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = kind, len(chunks)
		chunks = append(chunks, fields)
	}
	at := func(fields object) object {
		fields["item_id"], fields["output_index"], fields["content_index"] = "msg-"+r.id, 0, 0
		return fields
	}
	add("response.created", object{"response": response("in_progress", []object{})})
	add("response.in_progress", object{"response": response("in_progress", []object{})})
	if r.tool != "" {
		started := maps.Clone(output)
		started["status"], started["arguments"] = "in_progress", ""
		add("response.output_item.added", object{"output_index": 0, "item": started})
		add("response.function_call_arguments.done", object{
			"item_id": output["id"], "output_index": 0, "name": r.tool, "arguments": output["arguments"],
		})
	} else {
		add("response.output_item.added", object{"output_index": 0, "item": item("in_progress")})
		add("response.content_part.added", at(object{"part": part("")}))
		for _, w := range words(r) {
			add("response.output_text.delta", at(object{"delta": w, "logprobs": []object{}}))
		}
		add("response.output_text.done", at(object{"text": text(r), "logprobs": []object{}}))
		add("response.content_part.done", at(object{"part": part(text(r))}))
	}
	add("response.output_item.done", object{"output_index": 0, "item": output})
	add("response.completed", object{"response": done})
	return typedEvents(chunks...)
}

func messages(r request) answer {
	message := object{
		"id": "msg-" + r.id, "type": "message", "role": "assistant", "model": r.Model,
		"content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": 11, "output_tokens": 1},
	}
	if !r.Stream {
		message["content"] = []object{{"type": "text", "text": text(r)}}
		message["stop_reason"] = "end_turn"
		message["usage"] = object{"input_tokens": 11, "output_tokens": 7}
		return whole(message)
	}
	chunks := []object{
		{"type": "message_start", "message": message},
		{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}},
		{"type": "ping"},
	}
	for _, w := range words(r) {
		chunks = append(chunks, object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": w}})
	}
	chunks = append(chunks,
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": 7}},
		object{"type": "message_stop"})
	return typedEvents(chunks...)
}

func countTokens(r request) answer { return whole(object{"input_tokens": len(r.asked())}) }

// embeddings gives two vectors, in the encoding that the client asked for:
// base64 of little-endian float32, or numbers.
func embeddings(r request) answer {
	var data []object
	for i := range 2 {
		sum := sha256.Sum256([]byte{byte(i), byte(len(r.asked()))})
		var floats []float32
		var packed []byte
		for _, b := range sum[:8] {
			f := float32(b)/256 - 0.5
			floats = append(floats, f)
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(f))
		}
		var vector any = floats
		if r.EncodingFormat == "base64" {
			vector = base64.StdEncoding.EncodeToString(packed)
		}
		data = append(data, object{"object": "embedding", "index": i, "embedding": vector})
	}
	return whole(object{"object": "list", "data": data, "model": r.Model, "usage": object{"prompt_tokens": 4, "total_tokens": 4}})
}

func moderations(r request) answer {
	return whole(object{"id": "modr-" + r.id, "model": r.Model, "results": []object{{
		"flagged":         true,
		"categories":      object{"violence": true, "hate": false},
		"category_scores": object{"violence": 0.97, "hate": 1e-7},
	}}})
}

func images(r request) answer {
	return whole(object{"created": created, "data": []object{{"b64_json": base64.StdEncoding.EncodeToString([]byte(text(r)))}}})
}

// payments makes one each time that it is asked.
func payments(r request) answer {
	return whole(object{"id": "pay-" + r.Ref + "-" + strconv.Itoa(r.n), "ref": r.Ref})
}

// speech is 64 KiB of audio that is no UTF-8, in four chunks.
func speech(r request) answer {
	a := answer{contentType: "audio/mpeg"}
	for i := range 4 {
		sum := sha256.Sum256([]byte{byte(i), byte(len(r.asked()))})
		a.pieces = append(a.pieces, bytes.Repeat(sum[:], 512))
	}
	return a
}

func transcriptions(r request) answer {
	usage := object{"type": "tokens", "input_tokens": 14, "output_tokens": 7, "total_tokens": 21}
	switch {
	case r.Stream:
		var chunks []object
		for _, w := range words(r) {
			chunks = append(chunks, object{"type": "transcript.text.delta", "delta": w})
		}
		return typedEvents(append(chunks, object{"type": "transcript.text.done", "text": text(r), "usage": usage})...)
	case r.ResponseFormat == "text":
		return answer{"text/plain; charset=utf-8", [][]byte{[]byte(text(r))}}
	}
	return whole(object{"text": text(r), "usage": usage})
}
