package config

import "strings"

// nearest is the known word that a mistyped one most likely meant: at most
// two edits away, or a third of its length. Empty: none is near.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, bound := "", max(2, len(word)/3)
	if len(word) < 3 {
		bound = 1
	}
	for _, k := range known {
		if d := edits(word, strings.ToLower(k), bound); d <= bound {
			best, bound = k, d-1
		}
		if bound < 0 {
			break
		}
	}
	return best
}

// edits is the number of letters to insert, drop, change or swap with their
// neighbour; anything over bound is bound+1.
func edits(a, b string, bound int) int {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > bound || -d > bound {
		return bound + 1
	}
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}

// didYouMean is the mend of a word that is not among those known.
func didYouMean(word string, known []string) string {
	if n := nearest(word, known); n != "" {
		return "did you mean " + n + "?"
	}
	if len(known) == 0 {
		return "there are none to name"
	}
	return "known are " + strings.Join(known, ", ")
}

// DidYouMean is the mend of a word that is not among those known: the nearest
// of them, else all of them.
func DidYouMean(word string, known []string) string { return didYouMean(word, known) }
