package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/http"
	"strings"

	"oncegate/cache"
)

// keyVersion enters every key: a change of how they are made changes it, so
// that no record is found under a key that means something else.
const keyVersion = "1"

// What a key of the caller's own is the key of, as it enters the record's name.
const (
	explicitKey = "explicit" // a completion
	writeKey    = "write"    // a tool's write
)

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
	c.ownKey = k
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
func (g *Gateway) setKey(c *call, h http.Header) {
	if c.tool != nil {
		c.setToolKey()
		return
	}
	if c.body == nil { // the passthrough: private, and so without a name
		return
	}
	k := c.who.digest()
	defer c.who.done(k)
	said := &c.key
	if c.explicit() {
		k.begin(explicitKey)
		k.text(c.ownKey)
		k.sum(c.key[:])
		said = (*cache.Key)(&c.fingerprint)
	}
	k.begin("derived")
	if !c.explicit() {
		k.text(c.user)
		k.text(c.nonce)
	}
	k.text(c.op.name)
	k.text(c.up.Query)
	for _, name := range g.opt.Dedupe.Headers {
		k.text(strings.Join(h[name], "\x00"))
	}
	k.bytes(c.body.digest[:])
	k.sum(said[:])
}

// digest is a hash over length-prefixed pieces, so that a:b and c never read
// read as a and b:c.
type digest struct {
	h       hash.Hash
	used    bool // by begin
	len     [8]byte
	scratch [64]byte
}

// digest gives one under the principal's secret; done takes it back.
func (p *principal) digest() *digest {
	if p.macs != nil {
		if k, ok := p.macs.Get().(*digest); ok {
			return k
		}
	}
	return &digest{h: hmac.New(sha256.New, p.secret)}
}

func (p *principal) done(k *digest) {
	if p.macs != nil {
		p.macs.Put(k)
	}
}

// begin starts a key anew.
func (k *digest) begin(kind string) {
	if k.used {
		k.h.Reset()
	}
	k.used = true
	k.text(keyVersion)
	k.text(kind)
}

func (k *digest) bytes(b []byte) {
	binary.BigEndian.PutUint64(k.len[:], uint64(len(b)))
	k.h.Write(k.len[:])
	k.h.Write(b)
}

func (k *digest) text(s string) {
	binary.BigEndian.PutUint64(k.len[:], uint64(len(s)))
	k.h.Write(k.len[:])
	for len(s) > 0 {
		n := copy(k.scratch[:], s)
		k.h.Write(k.scratch[:n])
		s = s[n:]
	}
}

func (k *digest) sum(into []byte) { k.h.Sum(into[:0]) }
