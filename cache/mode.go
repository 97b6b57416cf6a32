package cache

import "strings"

var modeWords = [...]string{Off: "off", Retries: "retries", Duplicates: "duplicates", Always: "always"}

// ParseMode reads a mode's word.
func ParseMode(s string) (Mode, bool) {
	for m, word := range modeWords {
		if strings.EqualFold(s, word) {
			return Mode(m), true
		}
	}
	return 0, false
}

func (m Mode) String() string {
	if int(m) < len(modeWords) {
		return modeWords[m]
	}
	return "unknown"
}
