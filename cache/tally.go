package cache

import "fmt"

// Tally sums lines by minute and series, for an engine to write together. The
// zero value is empty; it is not for concurrent use.
type Tally struct {
	sums map[tallied]*Figures
}

type tallied struct {
	minute int64
	series Series
}

// mostTallied is how many sums a tally has before it tells less apart, where they
// can't be written for long.
const mostTallied = 16 * MostSeries

// Add adds a line, as Fit leaves it; else the error is ErrLine. It allocates
// for a series that is new only.
func (t *Tally) Add(l *Line) error {
	fit := *l
	if err := fit.Fit(); err != nil {
		return err
	}
	return t.AddTo(fit.Minute(), &fit.Series, &fit.Figures)
}

// AddTo adds figures to a series of a minute. It is ErrLine if a sum is more
// than can be counted; nothing was added then.
func (t *Tally) AddTo(minute int64, s *Series, f *Figures) error {
	k := tallied{minute, *s}
	sum := t.sums[k]
	for sum == nil {
		wider := k.series.Within(len(t.sums) - mostTallied + MostSeries)
		if wider == k.series {
			break
		}
		k.series = wider
		sum = t.sums[k]
	}
	if sum == nil {
		if t.sums == nil {
			t.sums = make(map[tallied]*Figures)
		}
		sum = new(Figures)
		t.sums[k] = sum
	}
	if !sum.Add(f) {
		return fmt.Errorf("%w: a sum of %d requests and %d is more than can be counted", ErrLine, sum.Requests, f.Requests)
	}
	return nil
}

// Len is how many sums there are.
func (t *Tally) Len() int { return len(t.sums) }

// Each gives all sums, in any order.
func (t *Tally) Each(f func(minute int64, s *Series, sum *Figures)) {
	for k, sum := range t.sums {
		f(k.minute, &k.series, sum)
	}
}
