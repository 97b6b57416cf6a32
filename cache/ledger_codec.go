package cache

import (
	"encoding/binary"
	"fmt"
)

// Sums are kept as bytes by the engines: those that wait to be added to their
// buckets, and the figures in the buckets. Numbers are unsigned varints, texts
// have their length before them.

func (s *Series) names() [8]*string {
	return [...]*string{&s.Model, &s.Provider, &s.Operation, &s.User, &s.Key, &s.Tool, &s.Outcome, &s.Reason}
}

func (f *Figures) numbers() [15]*int64 {
	return [...]*int64{&f.Requests, &f.Billed, &f.Unbilled, &f.Ambiguous,
		&f.SavedRequests, &f.SavedInput, &f.SavedOutput, &f.Saved.Dollars, &f.Saved.Picos,
		&f.BilledInput, &f.BilledOutput, &f.Spent.Dollars, &f.Spent.Picos, &f.Unpriced, &f.Prevented}
}

// AppendSeries appends a series, DecodeSeries reads one.
func AppendSeries(b []byte, s *Series) []byte {
	for _, name := range s.names() {
		b = appendBytes(b, *name)
	}
	return b
}

// AppendFigures appends figures, DecodeFigures reads them.
func AppendFigures(b []byte, f *Figures) []byte {
	for _, n := range f.numbers() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	return b
}

// AppendSum appends a sum of a minute, as a Tally has it: the minute, the
// series, the figures.
func AppendSum(b []byte, minute int64, s *Series, f *Figures) []byte {
	return AppendFigures(AppendSeries(binary.AppendUvarint(b, uint64(minute)), s), f)
}

// DecodeSeries reads what AppendSeries wrote. Any error is ErrCodec.
func DecodeSeries(b []byte) (s Series, err error) {
	d := decoder{rest: b}
	d.series(&s)
	return s, d.end("a series")
}

// DecodeFigures reads what AppendFigures wrote. Any error is ErrCodec.
func DecodeFigures(b []byte) (f Figures, err error) {
	d := decoder{rest: b}
	d.figures(&f)
	return f, d.end("figures")
}

// DecodeSums calls add for each sum of b, which are one after the other. Of
// what is damaged, nothing from there on is given. Any error is ErrCodec.
func DecodeSums(b []byte, add func(minute int64, s *Series, f *Figures)) error {
	d := decoder{rest: b}
	for len(d.rest) > 0 {
		var (
			s Series
			f Figures
		)
		minute := d.int64()
		d.series(&s)
		d.figures(&f)
		if d.bad {
			return d.end("sums")
		}
		add(minute, &s, &f)
	}
	return nil
}

// series takes a series; its names are parts of one string.
func (d *decoder) series(s *Series) {
	from := d.rest
	var begins, ends [8]int
	for i := range ends {
		size := len(d.bytes())
		ends[i] = len(from) - len(d.rest)
		begins[i] = ends[i] - size
	}
	if d.bad {
		return
	}
	all := string(from[:ends[7]])
	for i, name := range s.names() {
		*name = all[begins[i]:ends[i]]
	}
}

func (d *decoder) figures(f *Figures) {
	// Most are below 128, and of a report there are a million: those take no call.
	rest := d.rest
	for _, n := range f.numbers() {
		if len(rest) > 0 && rest[0] < 0x80 {
			*n, rest = int64(rest[0]), rest[1:]
			continue
		}
		d.rest = rest
		*n = d.int64()
		rest = d.rest
	}
	d.rest = rest
	if f.Saved.Picos >= picos || f.Spent.Picos >= picos {
		d.bad = true
	}
}

// int64 takes a number that fits one.
func (d *decoder) int64() int64 {
	v := d.uint()
	if v > 1<<63-1 {
		d.rest, d.bad = nil, true
		return 0
	}
	return int64(v)
}

func (d *decoder) end(what string) error {
	if d.bad || len(d.rest) > 0 {
		return fmt.Errorf("%w: damaged %s", ErrCodec, what)
	}
	return nil
}
