package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"oncegate/cache/redis"
)

var (
	plainName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

const mendName = "use letters, digits, dots, dashes and underscores, 64 at most"

// check finds what no single value shows: what must not go together, what is
// missing, what refers to nothing.
func (d *decoder) check(c *Config) {
	d.checkListeners(c)
	d.checkKeys(c)
	d.checkStore(c)
	d.checkDedupe(c)
	d.checkProviders(c)
	d.checkModels(c)
	d.checkTools(c)
	if _, err := time.LoadLocation(c.Dashboard.Timezone); (err != nil || c.Dashboard.Timezone == "Local") && !d.faulty("dashboard.timezone") {
		d.faultAt("dashboard.timezone", strconv.Quote(c.Dashboard.Timezone)+" is no time zone", "use a name of the IANA database, as Europe/Berlin, or UTC")
	}
	d.checkPrices(c)
	if p := c.Passthrough; p != "" && !slices.Contains(providerNames(c), p) {
		d.faultAt("passthrough", strconv.Quote(p)+" is not a provider", didYouMean(p, providerNames(c)))
	}
}

func (d *decoder) checkListeners(c *Config) {
	s := c.Server
	data, admin := d.checkAddress("server.listen", s.Listen), d.checkAddress("server.admin_listen", s.AdminListen)
	if data && len(c.Auth.Keys) == 0 && !c.Auth.Open && !Loopback(s.Listen) && !d.faulty("auth") {
		d.faultAt("server.listen", strconv.Quote(s.Listen)+" is not loopback, and there are no auth.keys",
			"add a key (oncegate key new NAME), or listen on 127.0.0.1, or let everyone in with auth.open: true")
	}
	if c.Auth.Open && len(c.Auth.Keys) > 0 {
		d.faultAt("auth.open", "lets everyone in, and auth.keys does not", "remove one of them")
	}
	if admin && c.Auth.AdminToken == "" && !Loopback(s.AdminListen) && !d.faulty("auth.admin_token") {
		d.faultAt("server.admin_listen", strconv.Quote(s.AdminListen)+" is not loopback, and there is no auth.admin_token",
			"set a token, or listen on 127.0.0.1")
	}
	if _, port, _ := net.SplitHostPort(s.Listen); data && admin && port != "0" && s.Listen == s.AdminListen {
		d.faultAt("server.admin_listen", "is the same address as server.listen", "give it a port of its own")
	}
	if c.Auth.AdminToken != "" && !headerValue(c.Auth.AdminToken) {
		d.faultAt("auth.admin_token", "holds a control character, or begins or ends with a space", "use visible characters only")
	}
	for i, o := range s.CORS.Origins {
		at := index("server.cors.origins", i)
		if o == "*" {
			if len(c.Auth.Keys) == 0 {
				d.faultAt(at, `"*" and no auth.keys: any web page could spend the providers' keys`, "name the origins, or add a key")
			}
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			d.faultAt(at, strconv.Quote(o)+" is not an origin", "write scheme and host only, as https://chat.example")
		}
	}
}

func (d *decoder) checkAddress(path, addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	n, bad := strconv.Atoi(port)
	switch {
	case d.faulty(path):
	case err != nil || bad != nil:
		d.faultAt(path, strconv.Quote(addr)+" is not an address", "write host:port, as 127.0.0.1:8080")
	case n < 0 || n > 65535:
		d.faultAt(path, strconv.Quote(addr)+" has no port that there is", "write one from 0 to 65535")
	default:
		return true
	}
	return false
}

// Loopback says whether nobody but this machine can reach an address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (d *decoder) checkKeys(c *Config) {
	names, hashes := map[string]int{}, map[string]int{}
	for i := range c.Auth.Keys {
		k, at := &c.Auth.Keys[i], index("auth.keys", i)
		d.checkName(at+".name", k.Name, names, i)
		k.Hash = strings.ToLower(k.Hash)
		digits, ok := strings.CutPrefix(k.Hash, "sha256:")
		sum, err := hex.DecodeString(digits)
		switch first, twice := hashes[k.Hash]; {
		case d.faulty(at + ".hash"):
		case k.Hash == "":
			d.faultAt(at+".hash", "is missing", "put the hash that `oncegate key new "+or(k.Name, "NAME")+"` prints")
		case !ok || err != nil || len(sum) != 32:
			d.faultAt(at+".hash", "is not sha256: and 64 hex digits", "put the hash that `oncegate key new "+or(k.Name, "NAME")+"` prints, not the key")
		case twice:
			d.faultAt(at+".hash", fmt.Sprintf("is the hash of auth.keys[%d], too", first), "give each client a key of its own")
		default:
			hashes[k.Hash] = i
		}
		if len(k.Models) == 0 && !d.faulty(at+".models") {
			d.faultAt(at+".models", "lists none", `leave it out, or write ["*"], for all models`)
		}
		d.checkPatterns(at+".models", k.Models, "model", modelNames(c), d.faulty("models"))
		d.checkPatterns(at+".tools", k.Tools, "tool", toolNames(c), d.faulty("tools"))
	}
}

// checkPatterns checks names that may be the beginning of one with a * after
// it. unsure: what is known has faults of its own, and may not be whole.
func (d *decoder) checkPatterns(list string, patterns []string, kind string, known []string, unsure bool) {
	for i, p := range patterns {
		path, prefix := index(list, i), strings.TrimSuffix(p, "*")
		fits := func(name string) bool {
			return name == p || name == "*" || p != prefix && strings.HasPrefix(name, prefix)
		}
		switch {
		case strings.Contains(prefix, "*"):
			d.faultAt(path, strconv.Quote(p)+" has a * that is not at its end", "write a name, the beginning of one with a * after it, or \"*\"")
		case p != "*" && !unsure && !slices.ContainsFunc(known, fits):
			named := slices.DeleteFunc(known, func(name string) bool { return name == "*" })
			d.faultAt(path, strconv.Quote(p)+" is not a "+kind, didYouMean(p, append(named, "*")))
		}
	}
}

func (d *decoder) checkName(path, n string, seen map[string]int, i int) {
	first, twice := seen[n]
	switch {
	case d.faulty(path):
	case n == "":
		d.faultAt(path, "is missing", mendName)
	case !plainName.MatchString(n):
		d.faultAt(path, strconv.Quote(n)+" is not a name", mendName)
	case twice:
		list := path[:strings.LastIndexByte(path, '[')]
		d.faultAt(path, fmt.Sprintf("%q is the name of %s, too", n, index(list, first)), "rename one of them")
	default:
		seen[n] = i
	}
}

func (d *decoder) checkStore(c *Config) {
	dir, local := strings.CutPrefix(c.Store.URL, "local:")
	switch {
	case d.faulty("store.url"):
	case strings.HasPrefix(c.Store.URL, "redis"):
		if err := redis.CheckURL(c.Store.URL); err != nil {
			d.faultAt("store.url", err.Error(), "write redis://HOST:6379/0, rediss://, redis+cluster:// or redis+sentinel://")
		}
	case !local || dir == "":
		d.faultAt("store.url", "is not a store", "write local:DIRECTORY, as local:./data, or redis://HOST:6379/0")
	}
	if c.Store.Replicas > 0 && local && !d.faulty("store") {
		d.faultAt("store.replicas", "is for Redis, and a local store has no replicas", "leave it out")
	}
	if s := c.Store.Secret; s != "" && len(s) < 16 {
		d.faultAt("store.secret", "is shorter than 16 bytes", "make a longer one (openssl rand -hex 32), or leave it out and one is made")
	}
}

func (d *decoder) checkDedupe(c *Config) {
	for i, p := range c.Dedupe.Ignore {
		d.checkPointer(index("dedupe.ignore", i), p, "/metadata/trace_id")
	}
	for i, h := range c.Dedupe.Headers {
		if !headerName.MatchString(h) {
			d.faultAt(index("dedupe.headers", i), strconv.Quote(h)+" is not a header name", "write it as openai-beta")
		}
	}
	// A cap that is below the default was not meant for tools, one that is below
	// what somebody wrote contradicts it.
	if _, own := d.places["dedupe.ttl.tool"]; own && c.Dedupe.TTL.Tool > c.Dedupe.TTL.Max && !d.faulty("dedupe.ttl") {
		d.faultAt("dedupe.ttl.tool", "is more than dedupe.ttl.max, which caps it", "make it shorter, or max longer")
	}
}

func (d *decoder) checkPointer(path, p, example string) {
	if !pointer(p) {
		d.faultAt(path, strconv.Quote(p)+" is not a JSON pointer", "write it as "+example+", with ~1 for / and ~0 for ~ in a name")
	}
}

// pointer says whether a text is a JSON pointer (RFC 6901) to something inside
// a document.
func pointer(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(p), "~")
}

func (d *decoder) checkProviders(c *Config) {
	if len(c.Providers) == 0 && len(c.Tools) == 0 && !d.faulty("providers") && !d.faulty("tools") {
		d.faultAt("providers", "there are none", "add one, as `- {name: mock, kind: mock}`")
	}
	names := map[string]int{}
	for i := range c.Providers {
		p, at := &c.Providers[i], index("providers", i)
		d.checkName(at+".name", p.Name, names, i)
		if p.Kind == "" && !d.faulty(at+".kind") {
			d.faultAt(at+".kind", "is missing", "write openai (anything compatible), anthropic or mock")
		}
		d.checkBaseURL(at+".base_url", p)
		for j, k := range p.APIKeys {
			switch path := index(at+".api_keys", j); {
			case k == "":
				d.faultAt(path, "is empty", `leave it out where no credential is needed, or write "${NAME:-}" for a variable that may be missing`)
			case !headerValue(k):
				d.faultAt(path, "holds a control character, or begins or ends with a space", "check how the secret is stored: it goes into a header as it is")
			case slices.Index(p.APIKeys, k) < j:
				d.faultAt(path, "stands twice", "remove one of them")
			}
		}
	}
}

func (d *decoder) checkBaseURL(path string, p *Provider) {
	switch {
	case d.faulty(path):
		return
	case p.Kind == "mock":
		if p.BaseURL != "" {
			d.faultAt(path, "is nothing to a mock, which is built in", "remove it; for a mock that runs elsewhere write kind: openai")
		}
		return
	case p.BaseURL == "":
		example := "https://api.openai.com/v1"
		if p.Kind == "anthropic" {
			example = "https://api.anthropic.com"
		}
		d.faultAt(path, "is missing", "write it as "+example)
		return
	}
	d.checkURL(path, p.BaseURL, "https://llm.example/v1", "api_keys")
}

// checkURL checks the base URL of an upstream, whose credential belongs into
// another key.
func (d *decoder) checkURL(path, text, example, credential string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		d.faultAt(path, "is not an absolute http or https URL", "write it as "+example)
	case u.User != nil:
		d.faultAt(path, "holds a user or password", "put the credential into "+credential)
	case u.Fragment != "":
		d.faultAt(path, "has a fragment (#), which no server is sent", "end it before the #")
	}
}

func (d *decoder) checkModels(c *Config) {
	if len(c.Models) == 0 && len(c.Providers) > 0 && c.Passthrough == "" && !d.faulty("models") {
		target := or(c.Providers[0].Name, "NAME")
		d.faultAt("models", "there are none", `add one, as `+"`"+`- {name: "*", targets: [{provider: `+target+"}]}`")
	}
	seen := map[string]int{}
	for i, m := range c.Models {
		at := index("models", i)
		first, twice := seen[m.Name]
		switch {
		case d.faulty(at + ".name"):
		case m.Name == "":
			d.faultAt(at+".name", "is missing", `write the name that clients use, or "*" for any`)
		case strings.ContainsFunc(m.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			d.faultAt(at+".name", strconv.Quote(m.Name)+" holds a space or control character", "write the name as clients send it")
		case m.Name != "*" && strings.Contains(m.Name, "*"):
			d.faultAt(at+".name", strconv.Quote(m.Name)+" is a pattern, and only \"*\" alone is read", "name the models one by one")
		case twice:
			d.faultAt(at+".name", fmt.Sprintf("%q is the name of %s, too", m.Name, index("models", first)), "make one model of them, with several targets")
		default:
			seen[m.Name] = i
		}
		d.checkTargets(c, at, m)
	}
}

func (d *decoder) checkTargets(c *Config, at string, m Model) {
	if len(m.Targets) == 0 && !d.faulty(at+".targets") {
		d.faultAt(at+".targets", "there are none", "add one, as [{provider: NAME}]")
	}
	sum := 0
	for i, t := range m.Targets {
		path := index(at+".targets", i)
		sum += t.Weight
		switch {
		case d.faulty(path + ".provider"):
		case t.Provider == "":
			d.faultAt(path+".provider", "is missing", "name one of the providers")
		case !slices.Contains(providerNames(c), t.Provider):
			d.faultAt(path+".provider", strconv.Quote(t.Provider)+" is not a provider", didYouMean(t.Provider, providerNames(c)))
		}
		for j := range i {
			if o := m.Targets[j]; o.Provider == t.Provider && o.Model == t.Model && t.Provider != "" {
				d.faultAt(path, fmt.Sprintf("is the same as targets[%d]", j), "keep one, with the weight of both")
			}
		}
	}
	if len(m.Targets) > 0 && sum == 0 && !d.faulty(at+".targets") {
		d.faultAt(at+".targets", "all have weight 0, and so none is tried first", "give one of them a weight")
	}
}

func (d *decoder) checkPrices(c *Config) {
	for name, p := range c.Prices {
		path := join("prices", name)
		switch {
		case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			d.faultAt(path, strconv.Quote(name)+" is not a model's name", "write the name as answers or targets have it")
		case name == "*":
			d.faultAt(path, "is no model, and there is no price for all", "name each model; what has no price here or in the built-in table is unpriced")
		case !p.Input.Set() && !d.faulty(path):
			d.faultAt(path+".input", "is missing", "write US dollars a million tokens, as 0.42; 0 where it is free")
		}
	}
}

// faulty says whether a fault of this key, or of one in it, is noted already:
// what would follow from it is not said again.
func (d *decoder) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool {
		rest, ok := strings.CutPrefix(f.Field, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func providerNames(c *Config) []string {
	var out []string
	for _, p := range c.Providers {
		if p.Name != "" {
			out = append(out, p.Name)
		}
	}
	return out
}

func modelNames(c *Config) []string {
	var out []string
	for _, m := range c.Models {
		if m.Name != "" {
			out = append(out, m.Name)
		}
	}
	return out
}

func toolNames(c *Config) []string {
	var out []string
	for _, t := range c.Tools {
		if t.Name != "" {
			out = append(out, t.Name)
		}
	}
	return out
}

// headerValue says whether a secret can go into a header as it is.
func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) && strings.TrimSpace(s) == s
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// ValidName says whether a key or a provider can be called so.
func ValidName(s string) bool { return plainName.MatchString(s) }
