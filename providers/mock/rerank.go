package mock

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
)

// rerank orders documents by how near their embedding is to the query's. The
// answer has what Cohere, Jina and their kin have in common.
func rerank(_ *http.Request, a *ask, _ *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	query, docs := a.doc.Get("query").String(), a.doc.Get("documents").Array()
	if query == "" || len(docs) == 0 {
		return answer{}, invalid("documents", "'query' and 'documents' are required.")
	}
	type document struct {
		Text string `json:"text"`
	}
	type result struct {
		Index          int       `json:"index"`
		RelevanceScore float64   `json:"relevance_score"`
		Document       *document `json:"document,omitempty"`
	}
	var results []result
	n := tokens(query)
	want := embed(query, defaultDimensions)
	for i, d := range docs {
		text := d.String()
		if d.IsObject() {
			text = d.Get("text").String()
		}
		n += tokens(text)
		var near float64
		for j, f := range embed(text, defaultDimensions) {
			near += float64(f) * float64(want[j])
		}
		r := result{Index: i, RelevanceScore: math.Max(0, math.Round(near*1e6)/1e6)}
		if a.doc.Get("return_documents").Bool() {
			r.Document = &document{text}
		}
		results = append(results, r)
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.RelevanceScore, a.RelevanceScore) })
	if top := a.doc.Get("top_n"); top.Type == gjson.Number && top.Int() > 0 {
		results = results[:min(int(top.Int()), len(results))]
	}
	return whole(map[string]any{
		"id": newID("rerank-"), "model": a.model, "results": results,
		"usage": map[string]int{"prompt_tokens": n, "total_tokens": n},
		"meta":  map[string]any{"billed_units": map[string]int{"search_units": 1}},
	}, counted{input: n}), nil
}
