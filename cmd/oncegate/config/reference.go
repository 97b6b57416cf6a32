package config

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// source is this package's reference: the comments of its structs.
//
//go:embed config.go
var source string

// comments are the fields' comments, by Struct.Field, each in one line.
func comments() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		panic(err) // it was compiled
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		t, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := t.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, id := range f.Names {
					out[t.Name.Name+"."+id.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
		}
		return false
	})
	return out
}

// describe walks all keys in their order, sections before what is in them.
func describe(visit func(path string, f reflect.StructField, comment string)) {
	texts := comments()
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for f := range t.Fields() {
			if name(f) == "" {
				continue
			}
			p := join(path, name(f))
			visit(p, f, texts[t.Name()+"."+f.Name])
			switch ft := f.Type; {
			case f.Tag.Get("partial") != "": // described where it is whole
			case ft.Kind() == reflect.Struct:
				walk(ft, p)
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
				walk(ft.Elem(), p+"[]")
			case ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct:
				walk(ft.Elem(), p+".NAME")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}

// Reference is the table of all keys, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| key | default | what it says |\n| --- | --- | --- |\n")
	describe(func(path string, f reflect.StructField, comment string) {
		def := "`" + f.Tag.Get("default") + "`"
		switch {
		case f.Type.Kind() == reflect.Struct, f.Type.Kind() == reflect.Map, f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			def = ""
		case def == "``" && f.Type.Kind() == reflect.Bool:
			def = "`false`"
		case def == "``" && f.Type.Kind() == reflect.Slice:
			def = "`[]`"
		case def == "``":
			def = ""
		case f.Type.Kind() == reflect.Slice:
			def = "`[" + strings.ReplaceAll(f.Tag.Get("default"), ",", ", ") + "]`"
		}
		if e := f.Tag.Get("enum"); e != "" {
			comment += " One of `" + strings.ReplaceAll(e, ",", "`, `") + "`."
		}
		b.WriteString("| `" + path + "` | " + def + " | " + comment + " |\n")
	})
	return b.String()
}
