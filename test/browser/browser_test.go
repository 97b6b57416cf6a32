// Package browser looks at the dashboard as a person does: in Chromium.
package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one Chromium for all tests; each has a tab of its own.
var browser context.Context

func TestMain(m *testing.M) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil && program == "" {
			program = at
		}
	}
	if program == "" {
		fmt.Fprintln(os.Stderr, "left out: the tests of the dashboard: there is no chromium: run test/run.sh, or apt-get install chromium")
		if os.Getenv("CI") == "true" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1360, 900))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	browser, end = chromedp.NewContext(allocator)
	status := 1
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
	} else {
		status = m.Run()
	}
	end()
	stop()
	os.Exit(status)
}

// tab is a page of the dashboard in a browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	faults   []string // what the console told of
	requests []string // what was loaded
	expected []string // faults that are not
}

// patience is how long a page may take to become what a test waits for.
const patience = 20 * time.Second

// step is what is done in a tab.
type step = chromedp.Action[chromedp.Void]

// command is a step that sends the browser a command.
func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func shade(name string) step {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

func clockIn(zone string) step {
	return command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
}

func open(t *testing.T, f *fake, prepare ...step) *tab {
	t.Helper()
	server := httptest.NewServer(f)
	ctx, closeTab := chromedp.NewContext(browser)
	ctx, stop := context.WithTimeout(ctx, 60*time.Second)
	p := &tab{t: t, ctx: ctx, base: server.URL}
	err := chromedp.Listen(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			fault := e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				fault += " " + e.ExceptionDetails.Exception.Description
			}
			p.faults = append(p.faults, fault)
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				p.faults = append(p.faults, fmt.Sprintf("%s: %s", e.Type, e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			p.faults = append(p.faults, e.Entry.Text)
		case *network.EventRequestWillBeSent:
			p.requests = append(p.requests, e.Request.Method+" "+strings.TrimPrefix(e.Request.URL, p.base))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		closeTab()
		server.CloseClientConnections()
		server.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
	faults:
		for _, fault := range p.faults {
			for _, fine := range p.expected {
				if strings.Contains(fault, fine) {
					continue faults
				}
			}
			t.Errorf("the console: %s", fault)
		}
	})
	p.do(append([]step{command(network.Enable, network.EnableParams{}), clockIn("UTC")}, prepare...)...)
	return p
}

func (p *tab) do(steps ...step) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// visit opens a page and waits until nothing of it is still to come.
func (p *tab) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
	p.settled()
}

func (p *tab) settled() {
	p.t.Helper()
	p.until(`document.querySelector("main") && !document.querySelector(".coming, .answer[aria-busy=true]")`)
}

// until waits for an expression to be true.
func (p *tab) until(expression string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Poll[chromedp.Void]("!!("+expression+")", chromedp.WithPollingTimeout(patience), chromedp.WithPollingInterval(30*time.Millisecond))); err != nil {
		p.t.Fatalf("%s: %v\n%s", expression, err, p.text("body"))
	}
}

// eval gives what an expression is, as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return p.eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// want fails unless the page says a text.
func (p *tab) want(selector string, texts ...string) {
	p.t.Helper()
	got := p.text(selector)
	lacks := func(text string) bool { return !strings.Contains(got, text) }
	for end := time.Now().Add(patience); slices.ContainsFunc(texts, lacks) && time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		got = p.text(selector) // a part of the page may be drawn last
	}
	for _, text := range texts {
		if lacks(text) {
			p.t.Errorf("%s does not say %q:\n%s", selector, text, got)
		}
	}
}

// shot keeps a picture of the page where ONCEGATE_SHOTS names a folder. Those
// in docs/img are from here.
func (p *tab) shot(name string) {
	p.t.Helper()
	folder := os.Getenv("ONCEGATE_SHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
