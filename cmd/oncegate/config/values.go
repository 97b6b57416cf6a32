package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	yaml "github.com/goccy/go-yaml"
)

// Value is one value of the configuration that counts. Text is as the file
// would have it, secrets masked.
type Value struct {
	Path  string // server.listen, models[0].name
	Text  string
	Place Place
}

// Values are those that Print prints, in its order.
func (c *Config) Values() []Value {
	var list []Value
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case yaml.MapSlice:
			for _, m := range v {
				walk(join(path, fmt.Sprint(m.Key)), m.Value)
			}
			if len(v) == 0 {
				list = append(list, Value{path, "{}", c.places[path]})
			}
		case []yaml.MapSlice:
			for i, m := range v {
				walk(index(path, i), m)
			}
			if len(v) == 0 {
				list = append(list, Value{path, "[]", c.places[path]})
			}
		case []any:
			words := make([]string, len(v))
			for i, x := range v {
				words[i] = fmt.Sprint(x)
			}
			at, ok := c.places[path]
			if !ok && len(v) > 0 {
				at = c.places[index(path, 0)]
			}
			list = append(list, Value{path, "[" + strings.Join(words, ", ") + "]", at})
		case float64:
			list = append(list, Value{path, strconv.FormatFloat(v, 'f', -1, 64), c.places[path]})
		default:
			list = append(list, Value{path, fmt.Sprint(v), c.places[path]})
		}
	}
	walk("", c.tree(reflect.ValueOf(c).Elem(), "", yaml.CommentMap{}))
	return list
}
