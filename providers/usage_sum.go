package providers

import "oncegate/prices"

// sum is what was gathered, in the one shape that is priced.
//
// OpenAI counts what a cache gave as part of the input, Anthropic beside it.
func (u *usage) sum(w Wire) prices.Usage {
	out := prices.Usage{}
	if u.other {
		out.Tier = prices.OtherTier
	}
	out.Cost, out.Stated = u.price()
	t := out
	if u.bad || !u.whole(w, &t) || t.Input > prices.MaxCount || t.Output > prices.MaxCount {
		return out
	}
	t.Known = true
	return t
}

// price is what the upstream itself says the answer cost.
func (u *usage) price() (prices.Pico, bool) {
	switch {
	case u.cost.set && !u.ownKey:
		return prices.Pico(u.cost.n), true
	case u.cost.set && u.upstreamCost.set:
		return prices.Pico(u.cost.n + u.upstreamCost.n), true
	case u.ticks.set:
		return prices.Pico(u.ticks.n), true
	}
	return 0, false
}

// whole fills in the counts; false: they are not all known. An input of
// nothing is one that nobody counted.
func (u *usage) whole(w Wire, t *prices.Usage) bool {
	if w == Transcriptions && u.millis.set && !u.input.set && !u.output.set {
		t.AudioMillis = u.millis.n
		return t.AudioMillis > 0
	}
	t.Input, t.Output, t.Reasoning, t.Searches = u.input.n, u.output.n, u.reasoning.n, u.searches.n
	mend := func(yes bool) { t.Mended = t.Mended || yes }
	reads := w == Embeddings || w == Rerank || w == Moderations // and writes nothing
	switch {
	case reads:
		if t.Input == 0 {
			t.Input = u.total.n // many tell nothing else
		}
	case u.input.set && u.output.set:
	case w == Messages || !u.total.set || !u.input.set && !u.output.set:
		return false
	case u.output.set && u.total.n >= u.output.n:
		t.Input = u.total.n - u.output.n
	case u.input.set && u.total.n >= u.input.n:
		t.Output = u.total.n - u.input.n
	default:
		return false
	}

	t.Cached = u.cached.n
	if !u.cached.set {
		t.Cached = u.cacheRead.n
	}
	written := u.cacheWritten.n
	if !u.cacheWritten.set {
		written = u.written5m.n + u.written1h.n
	}
	switch {
	case w == Messages:
		t.Input += t.Cached + written
	case t.Cached > t.Input && u.total.n == t.Input+t.Cached+t.Output:
		t.Input += t.Cached // beside it after all, as the total says
		mend(true)
	}
	if t.Input == 0 && !(w == Images || w == Speech) {
		return false // nobody answers nothing
	}
	mend(cut(&t.Cached, t.Input))
	mend(cut(&written, t.Input-t.Cached))
	t.CacheWrite1h = u.written1h.n
	mend(cut(&t.CacheWrite1h, written))
	t.CacheWrite5m = written - t.CacheWrite1h
	mend(u.cacheWritten.set && u.written5m.set && u.written5m.n != t.CacheWrite5m)

	// Some count reasoning beside the completion, or only in the total.
	if !reads && w != Messages && u.total.set && u.total.n != t.Input+t.Output {
		mend(true)
		t.Output = max(t.Output, u.total.n-t.Input)
	}
	mend(cut(&t.Reasoning, t.Output))
	t.InputAudio, t.InputImage, t.OutputAudio, t.OutputImage = u.inputAudio.n, u.inputImage.n, u.outputAudio.n, u.outputImage.n
	mend(cut(&t.InputAudio, t.Input))
	mend(cut(&t.InputImage, t.Input-t.InputAudio))
	mend(cut(&t.OutputAudio, t.Output))
	mend(cut(&t.OutputImage, t.Output-t.OutputAudio))
	return t.Input > 0 || t.Output > 0
}

// cut makes a part no larger than its whole; true: it was.
func cut(part *int64, whole int64) bool {
	if *part <= whole {
		return false
	}
	*part = whole
	return true
}
