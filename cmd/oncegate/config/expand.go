package config

import (
	"errors"
	"io"
	"os"
	"strings"
)

// surroundings is what an expansion may read.
type surroundings struct {
	env  func(name string) (string, bool)
	file func(path string) ([]byte, error)
}

// maxSecretFile bounds what ${file:PATH} reads.
const maxSecretFile = 1 << 20

// expandError is a fault of an expansion. Neither text quotes the value, for
// it may be a secret.
type expandError struct{ what, mend string }

func (e *expandError) Error() string { return e.what + "; " + e.mend }

// expand replaces ${NAME}, ${NAME:-default}, ${file:PATH} and $$ in one scalar
// value. What an expansion gives is never expanded again, but a default and a
// path may hold expansions themselves. A trailing newline of a variable or a
// file is cut off: it is the shell's or the editor's, not the secret's.
func (s surroundings) expand(text string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil
	}
	out, rest, err := s.until(text, false, 0)
	if err != nil {
		return "", err
	}
	if rest != "" { // until stops early only at a brace, which it does not look for here
		return "", errors.New("internal: expansion stopped early")
	}
	return out, nil
}

// until expands text up to its end, or, inside braces, up to the closing one;
// rest is what follows that.
func (s surroundings) until(text string, braces bool, depth int) (out, rest string, err error) {
	if depth > 8 {
		return "", "", &expandError{"${...} are nested more than 8 deep", "write it flatter"}
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '}' && braces:
			return b.String(), text[i+1:], nil
		case c != '$':
			b.WriteByte(c)
			i++
		case strings.HasPrefix(text[i:], "$$"):
			b.WriteByte('$')
			i += 2
		case strings.HasPrefix(text[i:], "${"):
			value, after, err := s.reference(text[i+2:], depth)
			if err != nil {
				return "", "", err
			}
			b.WriteString(value)
			text, i = after, 0
		default:
			return "", "", &expandError{"has a lone $",
				"write $$ for a dollar sign, ${NAME} to read the environment"}
		}
	}
	if braces {
		return "", "", &expandError{"has ${ without its }", "write ${NAME}, ${NAME:-default} or ${file:PATH}, and $$ for a dollar sign"}
	}
	return b.String(), "", nil
}

// reference resolves what stands after ${.
func (s surroundings) reference(text string, depth int) (value, rest string, err error) {
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		path, rest, err = s.until(path, true, depth+1)
		if err != nil {
			return "", "", err
		}
		data, err := s.file(path)
		if err != nil {
			return "", "", &expandError{"${file:" + path + "} cannot be read: " + reason(err), "check the path and who may read it"}
		}
		return trimNewline(string(data)), rest, nil
	}
	end := 0
	for end < len(text) && nameByte(text[end], end == 0) {
		end++
	}
	name, after := text[:end], text[end:]
	if name == "" {
		return "", "", &expandError{"has ${ without a name", "write ${NAME}, ${NAME:-default} or ${file:PATH}, and $$ for a dollar sign"}
	}
	got, set := s.env(name)
	got = trimNewline(got)
	switch {
	case strings.HasPrefix(after, "}"):
		if !set {
			return "", "", &expandError{"the environment has no " + name, "set it, or write ${" + name + ":-VALUE} for what stands in when it is not set"}
		}
		return got, after[1:], nil
	case strings.HasPrefix(after, ":-"):
		// The default is read even where it is not needed: a fault in it should not
		// wait for the day that the variable is missing. Only then are its own
		// variables looked up.
		inner := s
		if got != "" {
			inner = surroundings{
				env:  func(string) (string, bool) { return "", true },
				file: func(string) ([]byte, error) { return nil, nil },
			}
		}
		fallback, rest, err := inner.until(after[2:], true, depth+1)
		if err != nil {
			return "", "", err
		}
		if got != "" {
			return got, rest, nil
		}
		return fallback, rest, nil
	}
	return "", "", &expandError{"has ${" + name + " without its }", "write ${" + name + "} or ${" + name + ":-default}"}
}

func nameByte(c byte, first bool) bool {
	return c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || !first && '0' <= c && c <= '9'
}

func trimNewline(s string) string { return strings.TrimRight(s, "\r\n") }

// reason is the cause of a file's error, without the path said twice.
func reason(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// readSecret reads the file of a ${file:PATH}.
func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(data) > maxSecretFile {
		err = errors.New("it is larger than 1 MiB")
	}
	return data, err
}
