package prices

// Usage is what an upstream says that one answer used, in one shape for all
// wires. Counts are whole tokens unless said otherwise, never negative, at
// most MaxCount.
//
// The zero value is an answer whose usage nobody told: unknown, not nothing.
type Usage struct {
	// Known says that the upstream counted, and that all of what it said of
	// tokens and seconds could be read. Without it the counts are zero.
	Known bool
	// Mended says that figures contradicted each other: a part larger than
	// its whole was cut to it, or a total told of what was left out.
	Mended bool

	Input        int64 // all of the input: what is new, read from a cache and written to one
	Cached       int64 // the part of Input that was read from the provider's cache
	CacheWrite5m int64 // the part written to it, for five minutes or as long as it likes
	CacheWrite1h int64 // the part written to it for an hour
	InputAudio   int64 // the part that is audio; may lie in Cached
	InputImage   int64 // the part that is images; may lie in Cached
	Output       int64 // all of the output
	Reasoning    int64 // the part of Output that nobody sees
	OutputAudio  int64 // the part of Output that is audio
	OutputImage  int64 // the part of Output that is images

	AudioMillis int64 // milliseconds of audio heard, where a transcription counts time and no tokens
	Searches    int64 // web searches that the upstream made and counted

	// Stated says that the upstream named the price of the answer: Cost.
	Stated bool
	Cost   Pico

	Tier Tier // the service tier it was answered on
}

// MaxCount is the largest count that is believed, of tokens, milliseconds or
// searches. No answer comes near it; a larger figure makes the usage unknown.
const MaxCount = 1 << 40

// Tier is the service tier that an answer came from. The built-in table has
// the prices of the standard one.
type Tier uint8

const (
	Standard  Tier = iota // or none was named
	OtherTier             // flex, priority, batch, scale, or one not known here
)

// TierOf reads a provider's word for its tier: OpenAI's, Anthropic's, Groq's.
func TierOf(word string) Tier {
	switch word {
	case "", "default", "auto", "standard", "on_demand":
		return Standard
	}
	return OtherTier
}
