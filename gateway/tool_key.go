package gateway

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"oncegate/cache"
)

// keySource says where a write's key comes from.
type keySource uint8

const (
	unkeyed  keySource = iota // nowhere: nobody can say that a second one is the same
	byHeader                  // Idempotency-Key
	byBody                    // key_from
	byFields                  // key_fields
)

// findKey takes the first key that the call has, in the order of the reference:
// the header, one in the body, the fields that mean the operation.
func (c *call) findKey() *refusal {
	t := c.tool
	if c.ownKey != "" {
		t.keyed = byHeader
		return nil
	}
	if len(t.KeyFrom)+len(t.KeyFields) == 0 {
		return nil
	}
	body := pointInto(t.up.Body)
	for _, pointer := range t.KeyFrom {
		v, err := body.at(pointer)
		if err != nil {
			return unreadableKey(pointer, err)
		}
		switch v.Kind() {
		case 0, 'n': // not there
		case '"':
			text, err := jsontext.AppendUnquote(nil, v)
			if err != nil {
				return unreadableKey(pointer, err)
			}
			key, why := parseIdempotencyKey(strconv.Quote(string(text)))
			if why != "" {
				return &refusal{status: 400, code: "idempotency_key_invalid", reason: reasonKeyInvalid, param: pointer,
					message: "the key at " + pointer + " of the body: " + why}
			}
			c.ownKey, t.keyed = key, byBody
			return nil
		default: // somebody meant it to be one: without it the write would run as often as it is sent
			return &refusal{status: 400, code: "idempotency_key_invalid", reason: reasonKeyInvalid, param: pointer,
				message: "the key at " + pointer + " of the body is no text; write it in quotes"}
		}
	}
	if len(t.KeyFields) == 0 {
		return nil
	}
	for _, pointer := range t.KeyFields {
		v, err := body.at(pointer)
		if err != nil {
			return unreadableKey(pointer, err)
		}
		if v == nil || v.Kind() == 'n' { // not an operation that the fields name
			t.named = nil
			return nil
		}
		text, ok := canonical(v)
		if !ok {
			return unreadableKey(pointer, errNotCanonical)
		}
		t.named = append(t.named, text)
	}
	t.keyed = byFields
	return nil
}

// setToolKey names the record of a write: by its caller's key, by the fields
// that mean it, or, if nobody can ask for it again, by chance.
func (c *call) setToolKey() {
	t := c.tool
	if t.write == nil {
		return
	}
	if t.keyed == unkeyed {
		rand.Read(c.key[:])
		return
	}
	k := c.who.digest()
	defer c.who.done(k)
	if t.keyed == byFields {
		k.begin("write-fields")
		k.text(c.user)
		k.text(t.Name)
		k.text(t.up.Method)
		k.text(t.up.Path)
		k.text(t.up.Query)
		for i, pointer := range t.KeyFields {
			k.text(pointer)
			k.bytes(t.named[i])
		}
		k.sum(c.key[:])
		c.fingerprint = c.key // they alone are the operation
		return
	}
	k.begin(writeKey)
	k.text(c.ownKey)
	k.sum(c.key[:])
	k.begin("write-params")
	k.text(t.Name)
	k.text(t.up.Method)
	k.text(t.up.Path)
	k.text(t.up.Query)
	kind, body := bodyDigest(t.up.Header.Get("Content-Type"), t.up.Body)
	k.text(kind)
	k.bytes(body[:])
	k.sum(c.fingerprint[:])
}

// bodyDigest says what a body is, however it is written: JSON in its canonical
// form, multipart by its parts, since a retry has a new boundary, anything else
// by its bytes.
func bodyDigest(contentType string, body []byte) (kind string, sum [32]byte) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return contentType, sha256.Sum256(body)
	}
	if strings.HasPrefix(media, "multipart/") {
		if sum, ok := partsDigest(params["boundary"], body); ok {
			delete(params, "boundary")
			return mime.FormatMediaType(media, params), sum
		}
		return contentType, sha256.Sum256(body)
	}
	if media == "application/json" || strings.HasSuffix(media, "+json") {
		if text, ok := canonical(body); ok {
			return mime.FormatMediaType(media, params), sha256.Sum256(text)
		}
	}
	return contentType, sha256.Sum256(body)
}

// partsDigest digests a multipart body by its parts: each one's headers, all of
// them, and its bytes. false: it is not one that can be read.
func partsDigest(boundary string, body []byte) (sum [32]byte, ok bool) {
	if boundary == "" {
		return sum, false
	}
	k := digest{h: sha256.New()}
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := in.NextRawPart()
		if err == io.EOF {
			k.sum(sum[:])
			return sum, true
		}
		if err != nil {
			return sum, false
		}
		names := make([]string, 0, len(p.Header))
		for name := range p.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		k.text("part")
		for _, name := range names {
			k.text(name)
			k.text(strings.Join(p.Header[name], "\x00"))
		}
		bytes := sha256.New()
		if _, err := io.Copy(bytes, p); err != nil {
			return sum, false
		}
		k.text("body")
		k.bytes(bytes.Sum(nil))
	}
}

// aged says that a key tells when it was made, and that this was before used
// keys are remembered: a UUIDv7 (RFC 9562).
func (g *Gateway) aged(c *call) bool {
	made, ok := madeAt(c.ownKey)
	return ok && time.Since(made) > max(g.opt.Tombstone, g.opt.ToolTTL)
}

// madeAt gives the time in a UUIDv7.
func madeAt(key string) (time.Time, bool) {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[18] != '-' || key[23] != '-' || key[14] != '7' {
		return time.Time{}, false
	}
	b, err := hex.DecodeString(key[:8] + key[9:13] + key[14:18] + key[19:23] + key[24:])
	if err != nil || b[8]&0xc0 != 0x80 {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b[:6] {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms), true
}

// upstreamKey is the key that the API gets: the same for every attempt of an
// operation, and nothing of the client's.
func (g *Gateway) upstreamKey(k cache.Key, origin cache.Fence) string {
	id := g.derive("upstream key", string(k[:])+strconv.FormatUint(uint64(origin), 10))
	return "og_" + hex.EncodeToString(id[:20])
}
