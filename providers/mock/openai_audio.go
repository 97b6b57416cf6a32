package mock

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
)

// speech answers with silence, a tenth of a second a word: what matters is
// that it is as long as the text and plays.
func speech(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	said := a.doc.Get("input").String()
	if said == "" {
		return answer{}, invalid("input", "'input' is required.")
	}
	n := len(words(said))
	var sound []byte
	var kind string
	switch format := a.doc.Get("response_format").String(); format {
	case "", "mp3":
		// Frames of MPEG-1 layer III, 128 kbit/s, 44.1 kHz, 26 ms each.
		kind, sound = "audio/mpeg", bytes.Repeat(append([]byte{0xff, 0xfb, 0x90, 0x00}, make([]byte, 413)...), 4*n)
	case "pcm":
		kind, sound = "audio/pcm", make([]byte, 4800*n)
	case "wav":
		kind, sound = "audio/wav", wav(make([]byte, 4800*n))
	default:
		return answer{}, invalid("response_format", "the mock makes mp3, wav and pcm, no %s", format)
	}
	u := counted{input: tokens(said), output: 2 * n}
	u.override(s.Usage)
	if a.doc.Get("stream_format").String() != "sse" {
		return answer{contentType: kind, body: sound, usage: u}, nil
	}
	var events []event
	shares := share(u.output, n)
	for i := range n {
		ev := event{part: content, tokens: shares[i], data: encode(map[string]string{
			"type": "speech.audio.delta", "audio": base64.StdEncoding.EncodeToString(sound[i*len(sound)/n : (i+1)*len(sound)/n]),
		})}
		events = append(events, ev)
	}
	events = append(events, event{part: finish, data: encode(map[string]any{
		"type":  "speech.audio.done",
		"usage": map[string]int{"input_tokens": u.input, "output_tokens": u.output, "total_tokens": u.input + u.output},
	})})
	return streamed(events, u), nil
}

// wav puts the header of a file with 24 kHz, 16 bits, mono before samples.
func wav(samples []byte) []byte {
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(36+len(samples)))...)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, 24000)
	b = binary.LittleEndian.AppendUint32(b, 48000)
	b = append(b, "\x02\x00\x10\x00data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(samples)))
	return append(b, samples...)
}

// transcriptions cannot listen: it says what it was sent, so that a mixed up
// file shows.
func transcriptions(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if a.form == nil || a.form.fileName == "" {
		return answer{}, invalid("file", "the body must be multipart/form-data with a file")
	}
	if a.model == "" {
		return answer{}, invalid("model", "you must provide a model parameter")
	}
	text := s.Text
	if text == "" {
		text = fmt.Sprintf("A recording of %d bytes named %s.", len(a.form.file), a.form.fileName)
	}
	u := counted{input: mediaTokens, output: tokens(text)}
	u.override(s.Usage)
	used := map[string]any{
		"type": "tokens", "input_tokens": u.input, "output_tokens": u.output, "total_tokens": u.input + u.output,
		"input_token_details": map[string]int{"audio_tokens": u.input, "text_tokens": 0},
	}
	if a.stream {
		var events []event
		parts := pieces(text, s.Chunks)
		shares := share(u.output, len(parts))
		for i, p := range parts {
			events = append(events, event{part: content, tokens: shares[i], data: encode(map[string]string{"type": "transcript.text.delta", "delta": p})})
		}
		return streamed(append(events, event{part: finish, data: encode(map[string]any{
			"type": "transcript.text.done", "text": text, "usage": used,
		})}), u), nil
	}
	const seconds = 1.0
	switch format := a.form.value("response_format"); format {
	case "", "json":
		return whole(map[string]any{"text": text, "usage": used}, u), nil
	case "text":
		return answer{contentType: "text/plain; charset=utf-8", body: []byte(text + "\n"), usage: u}, nil
	case "srt":
		return answer{contentType: "text/plain; charset=utf-8", body: []byte("1\n00:00:00,000 --> 00:00:01,000\n" + text + "\n\n"), usage: u}, nil
	case "vtt":
		return answer{contentType: "text/vtt; charset=utf-8", body: []byte("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n" + text + "\n\n"), usage: u}, nil
	case "verbose_json":
		return whole(map[string]any{
			"task": "transcribe", "language": "english", "duration": seconds, "text": text,
			"segments": []any{map[string]any{
				"id": 0, "seek": 0, "start": 0, "end": seconds, "text": text, "tokens": []int{}, "temperature": 0,
				"avg_logprob": -0.25, "compression_ratio": 1, "no_speech_prob": 0.01,
			}},
			"usage": map[string]any{"type": "duration", "seconds": seconds},
		}, u), nil
	default:
		return answer{}, invalid("response_format", "%q is none of json, text, srt, verbose_json, vtt", format)
	}
}
