package report

import (
	"encoding/json"
	"errors"
	"slices"
)

// MarshalJSON writes the group's name under what the groups are, then its sums.
func (g Group) MarshalJSON() ([]byte, error) {
	name, err := json.Marshal(map[string]string{string(g.By): g.Name})
	if err != nil {
		return nil, err
	}
	sums, err := json.Marshal(g.Sums)
	if err != nil {
		return nil, err
	}
	return slices.Concat(name[:len(name)-1], []byte{','}, sums[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (g *Group) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &g.Sums); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for _, by := range Groupings {
		if name, ok := members[string(by)]; ok {
			g.By = by
			return json.Unmarshal(name, &g.Name)
		}
	}
	return errors.New("a group of the report has no name")
}
