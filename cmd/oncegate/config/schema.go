package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"oncegate/prices"
)

// Schema is a JSON Schema of the file, for editors.
func Schema() ([]byte, error) {
	texts := comments()
	root := schemaOf(reflect.TypeFor[Config](), texts)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "oncegate configuration"
	return json.MarshalIndent(root, "", "  ")
}

type schema = map[string]any

func schemaOf(t reflect.Type, texts map[string]string) schema {
	keys := schema{}
	for f := range t.Fields() {
		if name(f) == "" {
			continue
		}
		s := fieldSchema(f, texts)
		if text := texts[t.Name()+"."+f.Name]; text != "" {
			s["description"] = text
		}
		keys[name(f)] = s
	}
	return schema{"type": "object", "additionalProperties": false, "properties": keys}
}

// reference is a value that is only known once it was expanded.
var reference = schema{"type": "string", "pattern": `\$\{`}

func fieldSchema(f reflect.StructField, texts map[string]string) schema {
	t, def := f.Type, f.Tag.Get("default")
	var s schema
	switch {
	case t.Kind() == reflect.Struct:
		s = schemaOf(t, texts)
		if f.Tag.Get("partial") != "" {
			dropDefaults(s)
		}
		return s
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "number"}}}
	case t.Kind() == reflect.Map:
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), texts)}
	case t == reflect.TypeFor[prices.Rate]():
		return schema{"anyOf": []any{schema{"type": "number", "minimum": 0}, reference}}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return schema{"type": "array", "items": schemaOf(t.Elem(), texts)}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Int:
		return schema{"type": "array", "items": schema{"anyOf": []any{integer(f), reference}}}
	case t.Kind() == reflect.Slice:
		s = schema{"type": "array", "items": schema{"type": "string"}}
		if def != "" {
			s["default"] = strings.Split(def, ",")
		}
		return s
	case t == reflect.TypeFor[time.Duration]():
		s = schema{"anyOf": []any{
			schema{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`}, schema{"const": 0}, reference}}
	case t == reflect.TypeFor[Size]():
		s = schema{"anyOf": []any{
			schema{"type": "string", "pattern": `^[0-9.]+ *([KMGT]i?B|kB|B)?$`}, schema{"type": "integer"}, reference}}
	case t.Kind() == reflect.Bool, t == reflect.TypeFor[Toggle]():
		s = schema{"anyOf": []any{schema{"type": "boolean"}, reference}}
		s["default"] = def == "true"
	case t.Kind() == reflect.Int:
		s = schema{"anyOf": []any{integer(f), reference}}
		if n, err := strconv.Atoi(def); err == nil {
			s["default"] = n
		}
		return s
	case t.Kind() == reflect.Float64:
		number := schema{"type": "number"}
		for tag, word := range map[string]string{"above": "exclusiveMinimum", "min": "minimum", "max": "maximum"} {
			if n, err := strconv.ParseFloat(f.Tag.Get(tag), 64); err == nil {
				number[word] = n
			}
		}
		s = schema{"anyOf": []any{number, reference}}
		if n, err := strconv.ParseFloat(def, 64); err == nil {
			s["default"] = n
		}
		return s
	case f.Tag.Get("enum") != "":
		s = schema{"anyOf": []any{schema{"enum": strings.Split(f.Tag.Get("enum"), ",")}, reference}}
	default:
		s = schema{"type": []string{"string", "number"}}
	}
	if _, has := s["default"]; !has && def != "" {
		s["default"] = def
	}
	return s
}

// integer is a whole number within the field's bounds.
func integer(f reflect.StructField) schema {
	number := schema{"type": "integer"}
	for tag, word := range map[string]string{"above": "exclusiveMinimum", "min": "minimum", "max": "maximum"} {
		if n, err := strconv.Atoi(f.Tag.Get(tag)); err == nil {
			number[word] = n
		}
	}
	return number
}

// dropDefaults takes the defaults out of a section whose absent keys mean
// those of another one.
func dropDefaults(s schema) {
	delete(s, "default")
	if keys, ok := s["properties"].(schema); ok {
		for _, k := range keys {
			dropDefaults(k.(schema))
		}
	}
}
