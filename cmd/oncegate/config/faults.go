package config

import (
	"fmt"
	"sort"
	"strings"
)

// Place says where a value came from. The zero value is the default.
type Place struct {
	File string // the config file
	Line int    // in File, from 1; 0: none
	Env  string // the variable
	Flag string // the flag, with its dashes
}

// String is default, file:line, env NAME or flag NAME.
func (p Place) String() string {
	switch {
	case p.Flag != "":
		return "flag " + p.Flag
	case p.Env != "":
		return "env " + p.Env
	case p.File != "" && p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.File != "":
		return p.File
	}
	return "default"
}

// Fault is one thing that is wrong.
type Fault struct {
	Place Place
	Field string // the path of the key; empty: the file as a whole
	What  string // what is wrong
	Mend  string // what to do about it
}

// String is one line: place: field: what is wrong; mend.
func (f Fault) String() string {
	parts := []string{f.Place.String()}
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	s := strings.Join(append(parts, f.What), ": ")
	if f.Mend != "" {
		s += "; " + f.Mend
	}
	return s
}

// Faults are all that is wrong with a configuration, in the order of the file.
type Faults []Fault

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, x := range f {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts the faults into the order of the file, those without a line last.
func (f Faults) sorted() Faults {
	sort.SliceStable(f, func(i, j int) bool {
		a, b := f[i].Place, f[j].Place
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line == 0
		}
		return a.Line < b.Line
	})
	return f
}
