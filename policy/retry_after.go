package policy

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// saturation is the longest wait that RetryAfter tells of.
const saturation = 30 * 24 * time.Hour

// RetryAfter reads how long an upstream asked to wait, from the first source
// that says so validly: the headers retry-after-ms, x-ms-retry-after-ms and
// Retry-After, the body's RetryInfo.retryDelay, on throttling the body's text
// "try again in 5.2s", and the reset of a rate limit that is used up, when
// that is no more than 60 s away. Keys of h are in http.Header's canonical
// form. Of several lines of one header the longest valid one counts.
//
// The result is from 0, which also stands for a time in the past, to 30 days.
// Dates are measured from the response's own Date where that is within 24 h of
// now, so a wrong clock on either side does no harm.
func RetryAfter(h map[string][]string, body []byte, throttled bool, now time.Time) (time.Duration, bool) {
	base := now
	if d, ok := longest(h["Date"], httpDate); ok && d.Sub(now).Abs() <= 24*time.Hour {
		base = d
	}
	if d, ok := longestWait(h["Retry-After-Ms"], milliseconds); ok {
		return d, true
	}
	if d, ok := longestWait(h["X-Ms-Retry-After-Ms"], milliseconds); ok {
		return d, true
	}
	if d, ok := longestWait(h["Retry-After"], func(s string) (time.Duration, bool) { return secondsOrDate(s, base) }); ok {
		return d, true
	}
	if d, ok := retryInfo(body); ok {
		return d, true
	}
	if throttled {
		if d, ok := tryAgainIn(body); ok {
			return d, true
		}
	}
	return rateLimitReset(h, base)
}

func longest(lines []string, parse func(string) (time.Time, bool)) (found time.Time, ok bool) {
	for _, line := range lines {
		if t, valid := parse(strings.TrimSpace(line)); valid && (!ok || t.After(found)) {
			found, ok = t, true
		}
	}
	return found, ok
}

func longestWait(lines []string, parse func(string) (time.Duration, bool)) (found time.Duration, ok bool) {
	for _, line := range lines {
		if d, valid := parse(strings.Trim(line, " \t")); valid {
			found, ok = max(found, d), true
		}
	}
	return found, ok
}

// number reads digits with an optional fraction and nothing else: no sign, no
// exponent, no hex, no NaN, no list. A number too large for a float is +Inf.
func number(s string) (float64, bool) {
	whole, fraction, dotted := strings.Cut(s, ".")
	if !digits(whole) || dotted && !digits(fraction) {
		return 0, false
	}
	v, _ := strconv.ParseFloat(s, 64) // of such a string only a range error is possible
	return v, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// saturate makes a Duration of a number of units, still in floating point
// until it is known to fit.
func saturate(v float64, unit time.Duration) time.Duration {
	if v >= float64(saturation/unit) {
		return saturation
	}
	return time.Duration(v * float64(unit))
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), saturation) }

func milliseconds(s string) (time.Duration, bool) {
	v, ok := number(s)
	return saturate(v, time.Millisecond), ok
}

func secondsOrDate(s string, base time.Time) (time.Duration, bool) {
	if v, ok := number(s); ok {
		return saturate(v, time.Second), true
	}
	t, ok := httpDate(s)
	return clamp(t.Sub(base)), ok
}

// httpDate reads the three forms of RFC 9110, section 5.6.7, as
// http.ParseTime does.
func httpDate(s string) (time.Time, bool) {
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// retryInfo reads google.rpc.RetryInfo among the details of an error.
func retryInfo(body []byte) (found time.Duration, ok bool) {
	if !bytes.Contains(body, []byte("retryDelay")) || !validJSON(body) {
		return 0, false
	}
	for _, detail := range errorObject(body).Get("details").Array() {
		if !strings.HasSuffix(detail.Get("@type").Str, "google.rpc.RetryInfo") {
			continue
		}
		if d, rest, valid := spelled(detail.Get("retryDelay").Str); valid && rest == "" {
			found, ok = max(found, d), true
		}
	}
	return found, ok
}

// tryAgainIn reads "try again in 5.2s", "in 1m12s", "in 20 seconds" in the
// text of a body.
func tryAgainIn(body []byte) (time.Duration, bool) {
	const phrase = "try again in "
	text := body[:min(len(body), 64<<10)] // an error, not a document
	for {
		i := bytes.IndexByte(text, phrase[1])
		if i < 0 {
			return 0, false
		}
		if start := i - 1; start >= 0 && len(text)-start > len(phrase) &&
			bytes.EqualFold(text[start:start+len(phrase)], []byte(phrase)) {
			rest := text[start+len(phrase):]
			if d, _, ok := spelled(string(rest[:min(len(rest), 64)])); ok {
				return d, true
			}
		}
		text = text[i+1:]
	}
}

// spelled reads a duration from the start of s: one or more numbers with
// their units, abbreviated or in words, and gives what follows it.
func spelled(s string) (total time.Duration, rest string, ok bool) {
	for rest = s; ; ok = true {
		n := 0
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.') {
			n++
		}
		v, valid := number(rest[:n])
		after := strings.TrimPrefix(rest[n:], " ")
		n = 0
		for n < len(after) && (after[n]|0x20 >= 'a' && after[n]|0x20 <= 'z') {
			n++
		}
		unit := unitOf(after[:n])
		if !valid || unit == 0 {
			return clamp(total), rest, ok
		}
		total = clamp(total + saturate(v, unit))
		rest = after[n:]
	}
}

func unitOf(s string) time.Duration {
	switch strings.ToLower(s) {
	case "ms", "millisecond", "milliseconds":
		return time.Millisecond
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute
	case "h", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	}
	return 0
}

// rateLimitReset gives the reset of the limit that is used up, of several the
// latest. Resets further than 60 s away are no hint: they tell of the whole
// budget's refill, not of when there is room again.
func rateLimitReset(h map[string][]string, base time.Time) (found time.Duration, ok bool) {
	for name, remaining := range h {
		at, is := resetOf(name)
		if !is || len(remaining) != 1 {
			continue
		}
		if v, valid := number(strings.Trim(remaining[0], " \t")); !valid || v != 0 {
			continue
		}
		d, valid := longestWait(h[at], func(s string) (time.Duration, bool) { return reset(s, base) })
		if valid && d <= 60*time.Second {
			found, ok = max(found, d), true
		}
	}
	return found, ok
}

// resetOf gives the name of the header that goes with one that tells what
// remains of a limit: OpenAI's and the common x-ratelimit-remaining-tokens,
// Anthropic's anthropic-ratelimit-tokens-remaining.
func resetOf(name string) (string, bool) {
	const common = "X-Ratelimit-Remaining"
	if suffix, ok := strings.CutPrefix(name, common); ok {
		return "X-Ratelimit-Reset" + suffix, true
	}
	if strings.HasPrefix(name, "Anthropic-Ratelimit-") {
		if limit, ok := strings.CutSuffix(name, "-Remaining"); ok {
			return limit + "-Reset", true
		}
	}
	return "", false
}

// reset reads when a limit resets: a duration (6m0s), seconds from now, Unix
// seconds or milliseconds, or a time of RFC 3339.
func reset(s string, base time.Time) (time.Duration, bool) {
	if v, ok := number(s); ok {
		switch {
		case v < 1e9:
			return saturate(v, time.Second), true
		case v < 1e12:
			return clamp(time.Unix(int64(v), 0).Sub(base)), true
		case v < 1e15:
			return clamp(time.UnixMilli(int64(v)).Sub(base)), true
		}
		return 0, false
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return clamp(t.Sub(base)), true
	}
	d, rest, ok := spelled(s)
	return d, ok && rest == ""
}
