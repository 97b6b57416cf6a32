package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"oncegate/cache"
	"oncegate/providers"
)

// toolCall is what a call of a tool is beside what every call is.
type toolCall struct {
	*tool
	up    providers.ToolCall
	write *cache.Write // nil: a read
	keyed keySource
	named [][]byte // byFields: the values
}

// readTool understands a call of a tool, or refuses it.
func (g *Gateway) readTool(w http.ResponseWriter, r *http.Request, ev *event, who principal) (*call, *refusal) {
	name, path := toolPath(sentPath(r))
	t := g.tools[name]
	switch {
	case t == nil:
		return nil, toolNotFound(name)
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace: // neither is a call
		return nil, methodNotAllowed(r.Method, "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE")
	}
	ev.tool, ev.target = t.Name, t.Name
	if !who.mayUse(t.Name) {
		return nil, toolNotAllowed(t.Name)
	}
	c := &call{op: &toolCalls, who: who, release: func() {}, tool: &toolCall{tool: t}}
	if _, refused := c.readHeaders(r.Header, t.Wait); refused != nil {
		return nil, refused
	}
	c.endUser = c.user
	read := t.reads(r.Method, path)
	if !read {
		if refused := c.readKey(r.Header); refused != nil {
			return nil, refused
		}
	}
	body, release, refused := g.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	r.Header.Del("Content-Encoding") // it was decoded
	c.release, c.size = release, len(body)
	c.up.Method = r.Method
	c.tool.up = providers.ToolCall{Method: r.Method, Path: path, Query: r.URL.RawQuery, Header: r.Header, Body: body, Write: !read}
	if !read {
		if refused := g.readWrite(c, r.Header); refused != nil {
			release()
			return nil, refused
		}
	}
	return c, nil
}

// sentPath is a request's path as it was sent: net/url writes some paths anew.
func sentPath(r *http.Request) string {
	uri, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(uri, "/") { // as proxies are asked
		return r.URL.EscapedPath()
	}
	return uri
}

// readWrite finds the key of a write, and says what its record tells of it.
func (g *Gateway) readWrite(c *call, h http.Header) *refusal {
	t := c.tool
	if refused := c.findKey(); refused != nil {
		return refused
	}
	if t.keyed == unkeyed && t.KeyRequired {
		return keyRequired(t.tool)
	}
	path, _ := cutPath(t.up.Path)
	t.write = &cache.Write{
		About: cache.About{
			Tool: t.Name, Method: t.up.Method, Path: path, Principal: c.who.name, User: named(c.endUser),
			Unkeyed: t.keyed == unkeyed,
		},
		Again:     t.UpstreamKeyWindow,
		Knowingly: h.Get("Oncegate-Retry-Unknown") == "1",
		Aged:      g.aged(c),
	}
	if n := len(t.up.Body); n > 0 { // so that somebody who has the request can find it
		sum := sha256.Sum256(t.up.Body)
		t.write.About.Size, t.write.About.SHA256 = int64(n), hex.EncodeToString(sum[:])
	}
	if t.keyed == byFields {
		t.write.Within = t.Window
	}
	if t.Probe != nil {
		t.write.About.Probe = fillProbe(t.Probe.Get, t.up.Body)
	}
	return nil
}

// alone says that nobody can ask for the answer of this call again: it is a
// tool's, and has no key.
func (c *call) alone() bool { return c.tool != nil && c.tool.keyed == unkeyed }

// maxPath bounds, in bytes, what of a path is kept with a record.
const maxPath = 1024

func cutPath(path string) (string, bool) {
	if len(path) > maxPath {
		return path[:maxPath], true
	}
	return path, false
}
