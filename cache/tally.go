package cache

// Tally sums lines by minute and series, for an engine to write together. The
// zero value is empty; it is not for concurrent use.
type Tally struct {
	sums map[tallied]*Figures
}

type tallied struct {
	minute int64
	series Series
}

// Add adds a line. It allocates for a series that is new only.
func (t *Tally) Add(l *Line) {
	t.AddTo(l.Minute(), &l.Series, &l.Figures)
}

// AddTo adds figures to a series of a minute.
func (t *Tally) AddTo(minute int64, s *Series, f *Figures) {
	sum := t.sums[tallied{minute, *s}]
	if sum == nil {
		if t.sums == nil {
			t.sums = make(map[tallied]*Figures)
		}
		sum = new(Figures)
		t.sums[tallied{minute, *s}] = sum
	}
	sum.Add(f)
}

// Len is how many sums there are.
func (t *Tally) Len() int { return len(t.sums) }

// Each gives all sums, in any order.
func (t *Tally) Each(f func(minute int64, s *Series, sum *Figures)) {
	for k, sum := range t.sums {
		f(k.minute, &k.series, sum)
	}
}
