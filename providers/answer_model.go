package providers

import (
	"strings"

	"github.com/tidwall/gjson"
)

// modelName is the model that an answer names. It is the answer's price that
// counts: aliases, fallbacks and routers answer with another than was asked.
type modelName string

// maxModelName is the most that is kept of a name; no price list has a longer one.
const maxModelName = 256

func (m *modelName) read(v gjson.Result) {
	if v.Type == gjson.String && v.Str != "" && v.Str != string(*m) {
		*m = modelName(strings.Clone(v.Str[:min(len(v.Str), maxModelName)]))
	}
}
