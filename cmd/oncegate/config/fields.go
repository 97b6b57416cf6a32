package config

import (
	"reflect"
	"strings"
)

// name is the key of a field; empty for one that is no key.
func name(f reflect.StructField) string { return f.Tag.Get("yaml") }

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if key != "" && name(f) == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for field := range t.Fields() {
		if k := name(field); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// fillDefaults gives every field of a section its default, sections in it
// included.
func fillDefaults(section reflect.Value) {
	t := section.Type()
	for i := range t.NumField() {
		f, v := t.Field(i), section.Field(i)
		text, has := f.Tag.Lookup("default")
		switch {
		case name(f) == "" || f.Tag.Get("partial") != "":
		case v.Kind() == reflect.Struct:
			fillDefaults(v)
		case !has:
		case v.Kind() == reflect.Slice:
			v.Set(reflect.ValueOf(strings.Split(text, ",")))
		default:
			if what, _ := set(v, f, text); what != "" {
				panic("config: the default of " + f.Name + " " + what)
			}
		}
	}
}

// leaf is one scalar outside lists: what a variable or a flag can set.
type leaf struct {
	path  string
	field reflect.StructField
	value reflect.Value
}

// leaves are all scalars of a section that do not stand in a list.
func leaves(section reflect.Value, path string) []leaf {
	var out []leaf
	t := section.Type()
	for i := range t.NumField() {
		f, v := t.Field(i), section.Field(i)
		if name(f) == "" {
			continue
		}
		switch p := join(path, name(f)); v.Kind() {
		case reflect.Struct:
			out = append(out, leaves(v, p)...)
		case reflect.Slice, reflect.Map:
		default:
			out = append(out, leaf{p, f, v})
		}
	}
	return out
}

// variable is what sets a path from the environment:
// ONCEGATE_SERVER_LISTEN for server.listen.
func variable(path string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

const prefix = "ONCEGATE_"
