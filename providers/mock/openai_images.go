package mock

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"time"

	"github.com/sashabaranov/go-openai"
)

// imageTokens is what one image counts as output.
const imageTokens = 272

// imagesAnswer keeps the zeros that go-openai's type leaves out and the
// Python SDK requires.
type imagesAnswer struct {
	Created int64                           `json:"created"`
	Data    []openai.ImageResponseDataInner `json:"data"`
	Usage   struct {
		InputTokens        int `json:"input_tokens"`
		InputTokensDetails struct {
			ImageTokens int `json:"image_tokens"`
			TextTokens  int `json:"text_tokens"`
		} `json:"input_tokens_details"`
		OutputTokens int `json:"output_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

// images paints the prompt: a small PNG whose colours are made of it.
func images(r *http.Request, a *ask, s *Step) (answer, *Fault) {
	if !a.doc.IsObject() {
		return answer{}, invalid("", "We could not parse the JSON body of your request.")
	}
	said := a.doc.Get("prompt").String()
	if said == "" {
		return answer{}, invalid("prompt", "'prompt' is required.")
	}
	n := max(int(min(a.doc.Get("n").Int(), 10)), 1)
	if s.Choices > 0 {
		n = s.Choices
	}
	u := counted{input: tokens(said), output: n * imageTokens}
	u.override(s.Usage)
	out := imagesAnswer{Created: time.Now().Unix()}
	out.Usage.InputTokens, out.Usage.OutputTokens, out.Usage.TotalTokens = u.input, u.output, u.input+u.output
	out.Usage.InputTokensDetails.TextTokens = u.input
	seed := sha256.Sum256([]byte(said))
	for i := range n {
		seed[0] += byte(i)
		one := openai.ImageResponseDataInner{RevisedPrompt: said}
		if a.doc.Get("response_format").String() == "url" {
			one.URL = "http://" + r.Host + "/_mock/image/" + hex.EncodeToString(seed[:4]) + ".png"
		} else {
			one.B64JSON = base64.StdEncoding.EncodeToString(paint(seed[:4]))
		}
		out.Data = append(out.Data, one)
	}
	return whole(out, u), nil
}

// paint makes a PNG of 8 by 8 from four bytes.
func paint(seed []byte) []byte {
	img := image.NewRGBA(image.Rect(0, 0, 8, 8))
	for y := range 8 {
		for x := range 8 {
			img.Set(x, y, color.RGBA{seed[0] + byte(16*x), seed[1] + byte(16*y), seed[2] ^ seed[3], 255})
		}
	}
	var b bytes.Buffer
	png.Encode(&b, img) // to memory: it cannot fail
	return b.Bytes()
}
