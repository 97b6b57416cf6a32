package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"oncegate/policy/simulate"
)

// simulated is a scenario and what came of it.
type simulated struct {
	simulate.Scenario
	outcomes []simulate.Outcome
}

func writeTable(to io.Writer, s simulated) error {
	fmt.Fprintf(to, "%s: %s\n", s.Name, s.About)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\n  %s", s.Rows)
	for _, f := range s.outcomes[0].Figures {
		fmt.Fprint(table, "\t", strings.ReplaceAll(f.Name, "_", " "))
	}
	for _, o := range s.outcomes {
		fmt.Fprintf(table, "\n  %s", o.Row)
		for _, f := range o.Figures {
			text := "never"
			if !math.IsNaN(f.Value) {
				text = strconv.FormatFloat(math.Round(f.Value*1e4)/1e4, 'f', -1, 64)
			}
			fmt.Fprint(table, "\t", text)
		}
	}
	fmt.Fprint(table, "\n\n")
	return table.Flush()
}

// writeJSON writes one array; a figure that did not happen is null.
func writeJSON(to io.Writer, all []simulated, seed uint64) error {
	type outcome struct {
		Scenario string              `json:"scenario"`
		Row      string              `json:"row"`
		Seed     uint64              `json:"seed"`
		Figures  map[string]*float64 `json:"figures"`
		Bin      float64             `json:"bin_seconds"`
		Load     []simulate.Bin      `json:"load"`
	}
	var out []outcome
	for _, s := range all {
		for _, o := range s.outcomes {
			figures := map[string]*float64{}
			for _, f := range o.Figures {
				if figures[f.Name] = nil; !math.IsNaN(f.Value) {
					figures[f.Name] = &f.Value
				}
			}
			out = append(out, outcome{s.Name, o.Row, seed, figures, o.Width.Seconds(), o.Load})
		}
	}
	return json.NewEncoder(to).Encode(out)
}

// writeCSV writes a line for each row and bin.
func writeCSV(to io.Writer, all []simulated) error {
	w := csv.NewWriter(to)
	w.Write([]string{"scenario", "row", "second", "calls", "offered", "answered"})
	for _, s := range all {
		for _, o := range s.outcomes {
			for i, b := range o.Load {
				second := strconv.FormatFloat((time.Duration(i) * o.Width).Seconds(), 'f', -1, 64)
				w.Write([]string{s.Name, o.Row, second, strconv.Itoa(b.Calls), strconv.Itoa(b.Offered), strconv.Itoa(b.Answered)})
			}
		}
	}
	w.Flush()
	return w.Error()
}
