// Package prices says what an answer of a language model cost: from the
// upstream's own word, the config's prices, or a built-in table, in this
// order. What none of them knows is unpriced, never free.
//
// It knows nothing of HTTP, of records or of who asked.
package prices

import (
	"strings"
	"sync"
)

// Own are the config's prices of one model.
type Own struct {
	Input        Rate // must be set
	Output       Rate // not set: answers with output are unpriced
	Cached       Rate // not set: as Input
	CacheWrite5m Rate // not set: as Input
	CacheWrite1h Rate // not set: as Input; beside CacheWrite5m such writes are unpriced
}

// Book is all the prices there are: the config's over the table's.
type Book struct {
	own map[string]*Price
}

// NewBook makes a book of the config's prices, by the model's name: as the
// answer names it, as the upstream was asked for it, or as clients do. They
// hold at every upstream and on every service tier.
func NewBook(own map[string]Own) *Book {
	b := &Book{own: make(map[string]*Price, len(own))}
	for name, o := range own {
		p := &Price{source: Config, always: []step{{rates: Rates{
			Input: o.Input, Cached: o.Cached, CacheWrite5m: o.CacheWrite5m, CacheWrite1h: o.CacheWrite1h, Output: o.Output,
		}}}}
		p.free = p.isFree()
		b.own[name] = p
	}
	return b
}

// Names are what one call's model is called.
type Names struct {
	Answer   string // by the answer; "" where it says nothing
	Upstream string // to the upstream
	Client   string // by the client
}

// List is the prices at one upstream. It is safe for use by many goroutines.
type List struct {
	book  *Book
	table *vendor // nil: none that the table knows

	mu    sync.RWMutex
	found map[Names]*Price // nil: none there is. At most maxFound
}

// maxFound bounds what names that clients and upstreams make up can fill.
const maxFound = 4096

// At gives the prices at the upstream of this base URL. One that is not in
// the table, such as a server of your own, has the book's own prices only:
// the same model costs something else there, or nothing.
func (b *Book) At(baseURL string) *List {
	return &List{book: b, table: vendorAt(baseURL), found: map[Names]*Price{}}
}

// Price finds the price of a model: the book's own by any of its names, in
// their order, else the table's of the one that answered. nil: there is none.
//
// The answer is remembered. The names need not outlive the call.
func (l *List) Price(n Names) *Price {
	l.mu.RLock()
	p, ok := l.found[n]
	l.mu.RUnlock()
	if ok {
		return p
	}
	p = l.find(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.found) >= maxFound {
		clear(l.found)
	}
	l.found[n.clone()] = p
	return p
}

func (l *List) find(n Names) *Price {
	for _, name := range []string{n.Answer, n.Upstream, n.Client} {
		if p := l.book.own[name]; p != nil && name != "" {
			return p
		}
	}
	if l.table == nil {
		return nil
	}
	if n.Answer == "" {
		return l.table.price(n.Upstream)
	}
	if p := l.table.price(n.Answer); p != nil {
		return p
	}
	if sameModel(n.Answer, n.Upstream) {
		return l.table.price(n.Upstream)
	}
	return nil
}

func (n Names) clone() Names {
	return Names{strings.Clone(n.Answer), strings.Clone(n.Upstream), strings.Clone(n.Client)}
}
