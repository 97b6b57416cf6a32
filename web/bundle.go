package web

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed index.html style.css app vendor
var files embed.FS

// libraries are the modules that others wrote, as they published them, by the
// name they are imported under. Each comes after those that it imports.
var libraries = []struct{ name, file string }{
	{"preact", "preact.mjs"},
	{"preact/hooks", "hooks.mjs"},
	{"@preact/signals-core", "signals-core.mjs"},
	{"@preact/signals", "signals.mjs"},
	{"htm", "htm.mjs"},
}

// modules are the page's own. Each comes after those that it imports.
var modules = []string{
	"library", "money", "calendar", "words", "address", "api", "live", "parts", "chart", "charts", "savings",
	"overview", "filters", "requests", "timeline", "record", "tools", "doubt", "targets", "ledger", "keys", "shell",
}

var (
	importNames = regexp.MustCompile(`import ?\{([^}]*)\} ?from ?"([^"]+)";?`)
	exportFrom  = regexp.MustCompile(`export ?\{([^}]*)\} ?from ?"([^"]+)";?`)
	exportNames = regexp.MustCompile(`export ?\{([^}]*)\};?`)
	exportOne   = regexp.MustCompile(`export default function`)
	sourceMap   = regexp.MustCompile(`(?m)//# sourceMappingURL=.*$`)

	ownImport = regexp.MustCompile(`(?m)^import [^;]*;\n`)
	ownExport = regexp.MustCompile(`(?m)^export `)
	comment   = regexp.MustCompile(`(?m)^[ \t]*//.*\n`)
	indent    = regexp.MustCompile(`(?m)^[ \t]+`)
)

// script joins all modules into one, so that a page load is few requests and
// needs no import map, which the page's policy would not let it have. A
// library becomes a function that gives what it exported, and so keeps its
// names to itself; the page's own modules share one scope, where a name that
// two of them have is a fault of syntax that no browser starts.
func script() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("const libraries={};\n")
	for _, l := range libraries {
		text, err := files.ReadFile("vendor/" + l.file)
		if err != nil {
			return nil, err
		}
		body, err := enclose(string(text))
		if err != nil {
			return nil, fmt.Errorf("web: vendor/%s: %w", l.file, err)
		}
		fmt.Fprintf(&out, "libraries[%q]=(()=>{%s})();\n", l.name, body)
	}
	for _, name := range modules {
		text, err := files.ReadFile("app/" + name + ".js")
		if err != nil {
			return nil, err
		}
		out.WriteByte('\n')
		out.WriteString(own(string(text)))
	}
	return out.Bytes(), nil
}

// enclose turns a module into the body of a function that returns what the
// module exports.
func enclose(text string) (string, error) {
	var gives []string
	text = sourceMap.ReplaceAllString(text, "")
	text = exportFrom.ReplaceAllStringFunc(text, func(s string) string {
		m := exportFrom.FindStringSubmatch(s)
		for name := range strings.SplitSeq(m[1], ",") {
			gives = append(gives, fmt.Sprintf("%s:libraries[%q].%s", name, m[2], name))
		}
		return ""
	})
	text = importNames.ReplaceAllStringFunc(text, func(s string) string {
		m := importNames.FindStringSubmatch(s)
		return fmt.Sprintf("const{%s}=libraries[%q];", strings.ReplaceAll(m[1], " as ", ":"), m[2])
	})
	text = exportNames.ReplaceAllStringFunc(text, func(s string) string {
		for name := range strings.SplitSeq(exportNames.FindStringSubmatch(s)[1], ",") {
			inside, outside, renamed := strings.Cut(strings.TrimSpace(name), " as ")
			if !renamed {
				outside = inside
			}
			gives = append(gives, outside+":"+inside)
		}
		return ""
	})
	if exportOne.MatchString(text) {
		text = exportOne.ReplaceAllString(text, "const only=function")
		gives = append(gives, "default:only")
	}
	if len(gives) == 0 || strings.Contains(text, "export ") || strings.Contains(text, "export{") {
		return "", fmt.Errorf("it exports in a way that is not known here")
	}
	return text + "\nreturn{" + strings.Join(gives, ",") + "}", nil
}

// own takes from a module of the page what its readers need and browsers don't.
func own(text string) string {
	text = ownImport.ReplaceAllString(text, "")
	text = ownExport.ReplaceAllString(text, "")
	text = comment.ReplaceAllString(text, "")
	return indent.ReplaceAllString(text, "")
}

// style is the style sheet, less its indents.
func style() ([]byte, error) {
	text, err := files.ReadFile("style.css")
	return indent.ReplaceAll(text, nil), err
}
