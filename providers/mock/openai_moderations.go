package mock

import (
	"net/http"
	"strings"
)

// moderationWords are what the mock takes offence at, a word a category. It
// is meant to be tripped on purpose.
var moderationWords = map[string]string{
	"harassment": "insult", "harassment/threatening": "threaten", "hate": "hateful", "hate/threatening": "hate-threat",
	"illicit": "illicit", "illicit/violent": "illicit-violent", "self-harm": "self-harm", "self-harm/intent": "self-harm-intent",
	"self-harm/instructions": "self-harm-instructions", "sexual": "sexual", "sexual/minors": "sexual-minors",
	"violence": "violence", "violence/graphic": "gore",
}

func moderations(_ *http.Request, a *ask, _ *Step) (answer, *Fault) {
	if !a.doc.IsObject() {
		return answer{}, invalid("", "We could not parse the JSON body of your request.")
	}
	texts := inputs(a.doc.Get("input"))
	if len(texts) == 0 {
		return answer{}, invalid("input", "'input' is required.")
	}
	model := a.model
	if model == "" {
		model = "omni-moderation-latest"
	}
	type result struct {
		Flagged    bool                `json:"flagged"`
		Categories map[string]bool     `json:"categories"`
		Scores     map[string]float64  `json:"category_scores"`
		Applied    map[string][]string `json:"category_applied_input_types"`
	}
	var results []result
	for _, text := range texts {
		r := result{Categories: map[string]bool{}, Scores: map[string]float64{}, Applied: map[string][]string{}}
		said := strings.Fields(strings.ToLower(text))
		for category, word := range moderationWords {
			r.Scores[category], r.Applied[category] = 0.0001, []string{"text"}
			r.Categories[category] = false
			for _, w := range said {
				if strings.Trim(w, ".,;:!?") == word {
					r.Categories[category], r.Scores[category], r.Flagged = true, 0.99, true
				}
			}
		}
		results = append(results, r)
	}
	return whole(map[string]any{"id": newID("modr-"), "model": model, "results": results}, counted{}), nil
}
