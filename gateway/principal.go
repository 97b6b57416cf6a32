package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"oncegate/cache"
)

// principal is whose request it is. Records never cross principals: its
// secret enters the key of each.
type principal struct {
	name   string // for logs and the ledger: the key's name, or a short hash
	secret []byte
	key    *ClientKey // nil on an open gateway
	macs   *sync.Pool // of digests under secret; nil: made anew
}

// principal finds out who asks. With configured keys the request must carry
// one; without them whatever credential came sets its sender apart.
func (g *Gateway) principal(r *http.Request) (principal, *refusal) {
	token, refused := credential(r.Header)
	if refused != nil {
		return principal{}, refused
	}
	if len(g.clients) == 0 && token == "" { // whatever came in another scheme sets its sender apart too
		token = strings.Join(r.Header["Authorization"], "\x00")
	}
	if len(g.clients) > 0 {
		key := g.clients[sha256.Sum256([]byte(token))]
		if token == "" || key == nil {
			return principal{}, unauthorized
		}
		return principal{name: key.Name, key: key, secret: key.secret, macs: key.macs}, nil
	}
	if token == "" {
		return g.anonymous, nil
	}
	id := g.derive("credential", token)
	return principal{name: "c-" + hex.EncodeToString(id[:4]), secret: id}, nil
}

// derive makes the secret of a principal from the store's own.
func (g *Gateway) derive(kind, id string) []byte {
	h := hmac.New(sha256.New, g.secret)
	h.Write([]byte(kind))
	h.Write([]byte{0})
	h.Write([]byte(id))
	return h.Sum(nil)
}

// credential reads the client's key in any of the SDKs' spellings. Two that
// differ are refused: nobody can say whose request it is.
func credential(h http.Header) (string, *refusal) {
	var token string
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
		for _, v := range h[name] {
			v = strings.TrimSpace(v)
			if name == "Authorization" {
				scheme, rest, _ := strings.Cut(v, " ")
				if !strings.EqualFold(scheme, "Bearer") {
					continue
				}
				v = strings.TrimSpace(rest)
			}
			if v == "" {
				continue
			}
			if token != "" && token != v {
				return "", conflictingCredentials
			}
			token = v
		}
	}
	return token, nil
}

// may says whether the principal may use the model.
func (p principal) may(model string) bool {
	return p.key == nil || len(p.key.Models) == 0 || fits(p.key.Models, model)
}

// mode is how the principal's requests for a model may be shared: as the
// request says, else its key, else the model, else the configuration, else
// the operation's own default.
func (g *Gateway) mode(asked *cache.Mode, p principal, rt *route, op *operation) cache.Mode {
	switch {
	case asked != nil:
		return *asked
	case p.key != nil && p.key.Mode != nil:
		return *p.key.Mode
	case rt != nil && rt.mode != nil:
		return *rt.mode
	}
	mode := cache.Duplicates
	if g.opt.Dedupe.Mode != nil {
		mode = *g.opt.Dedupe.Mode
	}
	if op.single != 0 {
		mode = min(mode, op.single)
	}
	return mode
}
