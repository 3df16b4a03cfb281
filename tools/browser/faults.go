package browser

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// maxFaults are kept; a page may fail at every frame.
const maxFaults = 50

// faults collects what a page should not do: warnings and errors in its console, exceptions,
// requests that fail, and requests to other hosts.
type faults struct {
	mu    sync.Mutex
	hosts []string

	// requests are the URLs of those under way.
	requests map[network.RequestID]string

	found []string
}

func newFaults(page string) *faults {
	f := &faults{requests: make(map[network.RequestID]string)}
	f.allow(page)
	return f
}

// allow takes the host of a page as one that may be asked.
func (f *faults) allow(page string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u, err := url.Parse(page); err == nil && u.Host != "" {
		f.hosts = append(f.hosts, u.Host)
	}
}

func (f *faults) add(format string, args ...any) {
	if len(f.found) < maxFaults {
		f.found = append(f.found, fmt.Sprintf(format, args...))
	}
}

// see is called for each event of the tab, in their order.
func (f *faults) see(event any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			f.add("console.%s: %s", e.Type, texts(e.Args))
		}
	case *runtime.EventExceptionThrown:
		f.add("exception: %s", exception(e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			f.add("browser's log, %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		f.requests[e.RequestID] = e.Request.URL
		f.foreign(e.Request.URL)
	case *network.EventWebSocketCreated:
		f.foreign(e.URL)
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			f.add("request: %s: HTTP status %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFinished:
		delete(f.requests, e.RequestID)
	case *network.EventLoadingFailed:
		// A page that is left cancels what it has begun.
		if !e.Canceled || e.BlockedReason != "" {
			f.add("request: %s: %s", f.requests[e.RequestID], strings.TrimSpace(e.ErrorText+" "+string(e.BlockedReason)))
		}
		delete(f.requests, e.RequestID)
	}
}

func (f *faults) foreign(address string) {
	if u, err := url.Parse(address); err != nil || u.Host != "" && !slices.Contains(f.hosts, u.Host) {
		f.add("request to another host: %s", address)
	}
}

// text is what has been found, one line each, to be put behind a message.
func (f *faults) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.found) == 0 {
		return ""
	}
	return "\nthe page:\n" + strings.Join(f.found, "\n")
}

// Faults returns what the page did since it was opened or since the last call, and should not have
// done: warnings and errors in its console, exceptions, requests that failed, and requests to other
// hosts. Those of a page that expects some are taken with it.
func (p *Page) Faults() []string {
	p.faults.mu.Lock()
	defer p.faults.mu.Unlock()
	found := p.faults.found
	p.faults.found = nil
	return found
}

// Clean fails the test where the page has Faults.
func (p *Page) Clean() {
	p.t.Helper()
	for _, fault := range p.Faults() {
		p.t.Errorf("the page: %s", fault)
	}
}

func texts(args []*runtime.RemoteObject) string {
	var all []string
	for _, a := range args {
		if a.Description != "" {
			all = append(all, a.Description)
		} else {
			all = append(all, strings.Trim(string(a.Value), `"`))
		}
	}
	return strings.Join(all, " ")
}

func exception(e *runtime.ExceptionDetails) string {
	text := e.Text
	if e.Exception != nil && e.Exception.Description != "" {
		text = e.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", text, e.URL, e.LineNumber+1)
}

// navigated reports whether a question to a page had no answer because another page was loaded.
func navigated(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused)
}
