package prices

import (
	"errors"
	"strings"
)

// Rate is a unit price; the zero value is none, which is not free. It keeps
// one more than the pico-dollars that a million units cost.
type Rate int64

// Per is the rate at which a million units cost so much.
func Per(million Pico) Rate { return Rate(million) + 1 }

// Set says whether there is a price.
func (r Rate) Set() bool { return r > 0 }

// Million is what a million units cost; 0 where there is no price.
func (r Rate) Million() Pico { return Pico(max(r, 1) - 1) }

// maxRate is a million dollars a million units.
const maxRate = Rate(1_000_000 * PerDollar)

var errRate = errors.New("not a price: a number from 0 to 1000000")

// ParseRate reads dollars a million units, as 0.42. What lies beyond the
// twelfth decimal is rounded half up.
func ParseRate(text string) (Rate, error) {
	n, ok := Decimal(strings.TrimSpace(text), 12)
	if !ok || Rate(n) > maxRate {
		return 0, errRate
	}
	return Per(Pico(n)), nil
}

// MarshalText gives dollars a million units; nothing where there is no price.
func (r Rate) MarshalText() ([]byte, error) {
	if !r.Set() {
		return nil, nil
	}
	return r.Million().Append(nil), nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Rate) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = 0
		return nil
	}
	var err error
	*r, err = ParseRate(string(text))
	return err
}

// Rates are the unit prices of one model. As JSON each is dollars a million
// units, and those without a price are left out.
//
// A part without a price of its own costs what its whole does, but for
// CacheWrite1h beside CacheWrite5m, and in the built-in table audio: there the
// whole's price is known to be another one, and the answer is unpriced.
type Rates struct {
	Input        Rate `json:"input,omitzero"`
	Cached       Rate `json:"cached_input,omitzero"`
	CacheWrite5m Rate `json:"cache_write_5m,omitzero"`
	CacheWrite1h Rate `json:"cache_write_1h,omitzero"`
	InputAudio   Rate `json:"input_audio,omitzero"`
	InputImage   Rate `json:"input_image,omitzero"`
	Output       Rate `json:"output,omitzero"`
	Reasoning    Rate `json:"reasoning,omitzero"`
	OutputAudio  Rate `json:"output_audio,omitzero"`
	OutputImage  Rate `json:"output_image,omitzero"`
	AudioMillis  Rate `json:"audio_millis,omitzero"` // a million milliseconds are 16 minutes 40 seconds
	Searches     Rate `json:"searches,omitzero"`
	Requests     Rate `json:"requests,omitzero"` // each answer is one
}
