package config

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "github.com/goccy/go-yaml"

	"oncegate/prices"
)

// mask stands for a secret, whatever its length.
const mask = "********"

// Print is the configuration as it counts, as YAML: each secret masked, and
// where each value came from as a comment.
func (c *Config) Print() ([]byte, error) {
	comments := yaml.CommentMap{}
	tree := c.tree(reflect.ValueOf(c).Elem(), "", comments)
	return yaml.MarshalWithOptions(tree, yaml.WithComment(comments), yaml.IndentSequence(true))
}

// tree turns a section into what the YAML encoder orders and comments. Keys of
// a partial section that nobody set are left out.
func (c *Config) tree(section reflect.Value, path string, comments yaml.CommentMap) yaml.MapSlice {
	out := yaml.MapSlice{}
	t := section.Type()
	for i := range t.NumField() {
		f, v := t.Field(i), section.Field(i)
		if name(f) == "" {
			continue
		}
		p := join(path, name(f))
		var value any
		switch {
		case v.Kind() == reflect.Struct:
			if f.Tag.Get("optional") != "" && v.IsZero() {
				continue
			}
			m := c.tree(v, p, comments)
			if len(m) == 0 {
				continue
			}
			value = m
		case v.IsZero() && (inPartial(p) || f.Tag.Get("above") != "" && f.Tag.Get("default") == ""):
			continue
		case v.Type() == reflect.TypeFor[prices.Rate]() && v.IsZero():
			continue
		case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.String:
			m := yaml.MapSlice{}
			for _, key := range slices.Sorted(maps.Keys(v.Interface().(map[string]string))) {
				m = append(m, yaml.MapItem{Key: key, Value: shown(v.MapIndex(reflect.ValueOf(key)), f)})
				c.note(comments, join(p, key))
			}
			value = m
			if len(m) == 0 {
				c.noteAbove(comments, p)
			}
		case v.Kind() == reflect.Map:
			m := yaml.MapSlice{}
			for _, key := range slices.Sorted(maps.Keys(v.Interface().(map[string]Price))) {
				m = append(m, yaml.MapItem{Key: key, Value: c.tree(v.MapIndex(reflect.ValueOf(key)), join(p, key), comments)})
			}
			value = m
			if len(m) == 0 {
				c.noteAbove(comments, p)
			}
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			list := []yaml.MapSlice{}
			for j := range v.Len() {
				list = append(list, c.tree(v.Index(j), index(p, j), comments))
			}
			value = list
			if v.Len() == 0 {
				c.noteAbove(comments, p)
			}
		case v.Kind() == reflect.Slice:
			list := []any{}
			for j := range v.Len() {
				list = append(list, shown(v.Index(j), f))
				c.note(comments, index(p, j))
			}
			value = list
			if v.Len() == 0 {
				c.noteAbove(comments, p)
			}
		default:
			value = shown(v, f)
			c.note(comments, p)
		}
		out = append(out, yaml.MapItem{Key: name(f), Value: value})
	}
	return out
}

func inPartial(path string) bool {
	plain := withoutIndexes(path)
	return strings.HasPrefix(plain, "providers[].policy.") || strings.HasPrefix(plain, "tools[].policy.")
}

func (c *Config) note(comments yaml.CommentMap, path string) {
	at, ok := c.places[path]
	if !ok && strings.HasSuffix(path, "]") {
		at = c.places[path[:strings.LastIndexByte(path, '[')]]
	}
	if to, ok := commentPath(path); ok {
		comments[to] = []*yaml.Comment{yaml.LineComment(" " + at.String())}
	}
}

// commentPath is where the encoder looks for a comment. Names of prices and
// of headers hold dots; one that holds a quote has no comment.
func commentPath(path string) (string, bool) {
	if list, header, ok := strings.Cut(path, "].headers."); ok && strings.HasPrefix(path, "tools[") {
		return "$." + list + "].headers.'" + header + "'", !strings.ContainsAny(header, `'\\`)
	}
	name, ok := strings.CutPrefix(path, "prices.")
	end := strings.LastIndexByte(name, '.')
	if !ok || end < 0 {
		return "$." + path, true
	}
	return "$.prices.'" + name[:end] + "'" + name[end:], !strings.ContainsAny(name, `'\\`)
}

// noteAbove comments an empty list, whose line the encoder can't comment.
func (c *Config) noteAbove(comments yaml.CommentMap, path string) {
	comments["$."+path] = []*yaml.Comment{yaml.HeadComment(" " + c.places[path].String())}
}

// shown is a value as the file would have it, so that what is printed can be
// read again.
func shown(v reflect.Value, f reflect.StructField) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case Size:
		return x.String()
	case Toggle:
		return x == True
	case prices.Rate:
		text := x.Million().String()
		if f, err := strconv.ParseFloat(text, 64); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == text {
			return f // as a number, without quotes
		}
		return text
	case string:
		switch {
		case x == "":
			return ""
		case f.Tag.Get("secret") != "":
			return mask
		case f.Tag.Get("url") != "":
			x = MaskURL(x)
		}
		return strings.ReplaceAll(x, "$", "$$")
	}
	return v.Interface()
}

// MaskURL takes passwords and query values out of a URL, for people to read.
func MaskURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return mask
	}
	changed := false
	if _, has := u.User.Password(); has || u.User != nil {
		u.User, changed = url.User("MASKED"), true
	}
	if u.RawQuery != "" {
		u.RawQuery, changed = "MASKED", true
	}
	if !changed {
		return s
	}
	return strings.ReplaceAll(u.String(), "MASKED", mask)
}
