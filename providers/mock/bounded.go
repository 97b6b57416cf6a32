package mock

// bounded is a map that forgets its oldest entries, so that a mock that runs
// for days stays small. Entries are replaced, never taken out.
type bounded[V any] struct {
	entries map[string]V
	order   []string // oldest first
}

func (b *bounded[V]) get(key string) V { return b.entries[key] }

// put sets an entry; limit is how many are kept.
func (b *bounded[V]) put(key string, v V, limit int) {
	if b.entries == nil {
		b.entries = map[string]V{}
	}
	if _, known := b.entries[key]; !known {
		b.order = append(b.order, key)
	}
	b.entries[key] = v
	if len(b.order) > limit {
		delete(b.entries, b.order[0])
		b.order = b.order[1:]
	}
}
