package mock

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/http"
	"strings"

	"github.com/sashabaranov/go-openai"
	"github.com/tidwall/gjson"
)

// defaultDimensions is what a request without dimensions gets: fewer than a
// real model has, to keep answers readable.
const defaultDimensions = 256

func embeddings(_ *http.Request, a *ask, _ *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	texts := inputs(a.doc.Get("input"))
	if len(texts) == 0 {
		return answer{}, invalid("input", "'input' must be a text, a list of texts, or tokens.")
	}
	dims := defaultDimensions
	if d := a.doc.Get("dimensions"); d.Exists() {
		if dims = int(d.Int()); dims < 1 || dims > 8192 {
			return answer{}, invalid("dimensions", "'dimensions' must be from 1 to 8192.")
		}
	}
	n := promptTokens(a.doc.Get("input"))
	out := openai.EmbeddingResponse{Object: "list", Model: openai.EmbeddingModel(a.model), Usage: openaiUsage(counted{input: n})}
	for i, text := range texts {
		out.Data = append(out.Data, openai.Embedding{Object: "embedding", Index: i, Embedding: embed(text, dims)})
	}
	if a.doc.Get("encoding_format").String() != "base64" {
		return whole(out, counted{input: n}), nil
	}
	type encoded struct {
		Object    string `json:"object"`
		Embedding string `json:"embedding"`
		Index     int    `json:"index"`
	}
	short := struct {
		Object string       `json:"object"`
		Data   []encoded    `json:"data"`
		Model  string       `json:"model"`
		Usage  openai.Usage `json:"usage"`
	}{Object: "list", Model: a.model, Usage: out.Usage}
	for _, e := range out.Data {
		var raw []byte
		for _, f := range e.Embedding {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		short.Data = append(short.Data, encoded{e.Object, base64.StdEncoding.EncodeToString(raw), e.Index})
	}
	return whole(short, counted{input: n}), nil
}

// inputs are the texts of an input in any of its forms; tokens stand for
// themselves.
func inputs(in gjson.Result) (out []string) {
	list := in.Array()
	switch {
	case !in.IsArray() && in.String() == "", len(list) == 0:
		return nil
	case !in.IsArray(), list[0].Type == gjson.Number:
		return []string{in.String()}
	}
	for _, e := range list {
		if e.IsObject() {
			out = append(out, textOf(gjson.Parse("["+e.Raw+"]")))
			continue
		}
		out = append(out, e.String())
	}
	return out
}

// embed is a bag of hashed words of length 1: the same text gives the same
// vector, and texts that share words are near each other.
func embed(text string, dims int) []float32 {
	v := make([]float32, dims)
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		h := fnv.New64a()
		h.Write([]byte(word))
		sum := h.Sum64()
		sign := float32(1)
		if sum>>63 == 1 {
			sign = -1
		}
		v[sum%uint64(dims)] += sign
	}
	var norm float64
	for _, f := range v {
		norm += float64(f) * float64(f)
	}
	if norm == 0 {
		v[0], norm = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}
