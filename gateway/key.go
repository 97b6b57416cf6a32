package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/http"
	"strings"
)

// keyVersion enters every key: a change of how they are made changes it, so
// that no record is found under a key that means something else.
const keyVersion = "1"

// readKey reads the caller's own Idempotency-Key: 1 to 255 visible ASCII
// characters, bare or as a quoted structured-field string (RFC 8941), whose
// parameters are ignored.
func (c *call) readKey(h http.Header) *refusal {
	lines := h["Idempotency-Key"]
	if len(lines) == 0 {
		return nil
	}
	if len(lines) > 1 {
		return badKey("there are two Idempotency-Key headers; send one")
	}
	k, why := parseIdempotencyKey(lines[0])
	if why != "" {
		return badKey(why)
	}
	c.explicit = true
	c.nonce = k // kept until setKey; an explicit key stands alone
	return nil
}

// parseIdempotencyKey gives the key, or why it is none.
func parseIdempotencyKey(line string) (key, why string) {
	line = strings.Trim(line, " \t")
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		var b strings.Builder
		end := -1
		for i := 0; i < len(quoted) && end < 0; i++ {
			switch ch := quoted[i]; {
			case ch == '"':
				end = i + 1
			case ch == '\\':
				i++
				if i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
					return "", `a quoted Idempotency-Key may only escape " and \`
				}
				b.WriteByte(quoted[i])
			default:
				b.WriteByte(ch)
			}
		}
		if end < 0 {
			return "", "the quoted Idempotency-Key has no closing quote"
		}
		if rest := strings.TrimLeft(quoted[end:], " "); rest != "" && rest[0] != ';' {
			return "", "something follows the quoted Idempotency-Key"
		}
		line = b.String()
	}
	if line == "" || len(line) > 255 {
		return "", "an Idempotency-Key has 1 to 255 characters"
	}
	for i := range len(line) {
		if line[i] <= ' ' || line[i] >= 0x7f {
			return "", "an Idempotency-Key has visible ASCII characters only, no spaces"
		}
	}
	return line, ""
}

// setKey names the call's record. An explicit key is scoped to its principal
// and fingerprinted with all that the call says; a derived one is all that
// the call says.
func (g *Gateway) setKey(c *call, d document, h http.Header) {
	explicit, nonce := c.nonce, c.nonce
	if c.explicit {
		nonce = ""
		k := newDigest(c.who.secret, "explicit")
		k.text(explicit)
		k.sum(c.key[:])
	}
	k := newDigest(c.who.secret, "derived")
	if !c.explicit {
		k.text(c.user)
		k.text(nonce)
	}
	k.text(c.op.name)
	k.text(c.up.Query)
	for _, name := range g.opt.Dedupe.Headers {
		k.text(strings.Join(h[name], "\x00"))
	}
	switch {
	case d.parts != nil:
		k.text("multipart")
		for _, p := range d.parts {
			k.text(p.name)
			k.text(p.file)
			k.text(p.contentType)
			k.bytes(p.data)
		}
	case d.raw:
		k.text("raw")
		k.bytes(c.up.Body)
	default:
		k.text("json")
		k.members(d.members, c.explicit, g.opt.Dedupe.Ignore)
	}
	if c.explicit {
		k.sum(c.fingerprint[:])
	} else {
		k.sum(c.key[:])
	}
}

// digest is an HMAC over length-prefixed pieces, so that a:b and c never
// read as a and b:c.
type digest struct {
	h   hash.Hash
	len [8]byte
}

func newDigest(secret []byte, kind string) *digest {
	k := &digest{h: hmac.New(sha256.New, secret)}
	k.text(keyVersion)
	k.text(kind)
	return k
}

func (k *digest) bytes(b []byte) {
	binary.BigEndian.PutUint64(k.len[:], uint64(len(b)))
	k.h.Write(k.len[:])
	k.h.Write(b)
}

func (k *digest) text(s string) { k.bytes([]byte(s)) }

func (k *digest) sum(into []byte) { k.h.Sum(into[:0]) }
