package prices

import "time"

// step is rates that hold for inputs above a size, for the whole answer.
type step struct {
	above int64 // tokens of input
	rates Rates
}

// dated is rates that hold from a day on, or between two times of a day, UTC.
type dated struct {
	from       int64 // Unix seconds; 0: always
	start, end int   // seconds of the day; equal: all day. Over midnight where end is before start
	weekdays   bool  // but not on Saturdays and Sundays
	steps      []step
}

const day = 24 * 60 * 60

func (d *dated) holds(unix int64) bool {
	if unix < d.from {
		return false
	}
	of := int(unix % day)
	switch {
	case d.weekdays && (unix/day+4)%7%6 == 0: // 1970 began on a Thursday
		return false
	case d.start == d.end:
		return true
	case d.start < d.end:
		return d.start <= of && of < d.end
	default:
		return d.start <= of || of < d.end
	}
}

// Rates are those that hold for an input of so many tokens at a moment.
func (p *Price) Rates(input int64, at time.Time) *Rates {
	steps := p.always
	unix := at.Unix()
	for i := range p.when {
		if p.when[i].holds(unix) {
			steps = p.when[i].steps
			break
		}
	}
	r := &steps[0].rates
	for i := 1; i < len(steps) && input > steps[i].above; i++ {
		r = &steps[i].rates
	}
	return r
}

// isFree says whether every price is there and nought, whatever is used.
func (p *Price) isFree() bool {
	for i := range p.always {
		r := &p.always[i].rates
		if r.Input != Per(0) || r.Output != Per(0) {
			return false
		}
		for _, other := range []Rate{r.Cached, r.CacheWrite5m, r.CacheWrite1h, r.InputAudio, r.InputImage, r.Reasoning, r.OutputAudio, r.OutputImage, r.AudioMillis, r.Searches, r.Requests} {
			if other.Million() != 0 {
				return false
			}
		}
	}
	return len(p.when) == 0
}
