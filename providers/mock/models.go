package mock

import (
	"net/http"
	"strings"
)

// created is when the mock's models were made, it says: a fixed time, so that
// two answers are alike.
const created = 1735689600 // 2025-01-01

// models answers GET /models and GET /models/{id}; any id is a model.
func (m *Mock) models(r *http.Request) answer {
	path := strings.TrimSuffix(r.URL.Path, "/")
	list := strings.HasSuffix(path, "/models")
	ids := m.opts.Models
	if !list {
		ids = []string{path[strings.LastIndex(path, "/models/")+len("/models/"):]}
	}
	var data []any
	for _, id := range ids {
		if onAnthropic(r) {
			data = append(data, map[string]any{"type": "model", "id": id, "display_name": id, "created_at": "2025-01-01T00:00:00Z"})
		} else {
			data = append(data, map[string]any{"id": id, "object": "model", "created": created, "owned_by": "mock"})
		}
	}
	switch {
	case !list:
		return whole(data[0], counted{})
	case onAnthropic(r):
		return whole(map[string]any{"data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]}, counted{})
	}
	return whole(map[string]any{"object": "list", "data": data}, counted{})
}
