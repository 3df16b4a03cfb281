// Package searchpage is the live page of a search for browsers (package page draws it).
//
// A Page is told what happens to the trials (Notes) and asks the Study for rows, curves and details
// only while somebody watches: a page that nobody looks at costs a search no more than the notes.
// The study's lock may be held while a note is taken, and is never taken while a lock of this
// package is held.
package searchpage

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// Config says what does not change while a page is served.
type Config struct {
	// Listen is a loopback address.
	Listen string
	// Name, Scheduler and Suggester are the study's.
	Name, Scheduler, Suggester string
	// States are those of trials; a row has an index of them.
	States []string
	Params []Param
	Logger *slog.Logger
}

// A Page is served from Listen to Close.
type Page struct {
	Notes  Notes
	server *page.Server
	// url has a token: it works once.
	url string
	// study is the search to show; nil before Show.
	study atomic.Pointer[Study]
	// weigher is used by News alone, which is not called together.
	weigher weigher
}

// Listen starts to serve a page, without a study yet: see Show. Its error is that of listening, or
// of an address that other machines can reach.
func Listen(cfg Config) (*Page, error) {
	p := &Page{weigher: weigher{params: cfg.Params}}
	host, _ := os.Hostname()
	head := page.SearchState{Name: cfg.Name, Scheduler: cfg.Scheduler, Suggester: cfg.Suggester, States: cfg.States}
	for _, x := range cfg.Params {
		head.Params = append(head.Params, x.SearchParam)
	}
	key := page.NewKey()
	feed := page.NewSearch(page.Page{Name: cfg.Name, Host: host, Started: time.Now().UnixMilli()}, head, p)
	var err error
	if p.server, err = page.Listen(page.Config{Listen: cfg.Listen, Feed: feed, Key: key, Logger: cfg.Logger}); err != nil {
		if errors.Is(err, page.ErrPublic) {
			err = fmt.Errorf("%w, which a search cannot have; use an address of this machine, such as 127.0.0.1:0, and ssh -L", err)
		}
		return nil, err
	}
	p.url = key.Link(p.server.URL())
	return p, nil
}

// Show shows a study from now on. It returns the page's link, which works once.
func (p *Page) Show(s Study) (link string) {
	p.study.Store(&s)
	return p.url
}

// Close ends the page, after it has shown the end to those who watch.
func (p *Page) Close() error { return p.server.Close() }

// shown is the study, nil before Show.
func (p *Page) shown() Study {
	if s := p.study.Load(); s != nil {
		return *s
	}
	return nil
}

// maxCopied is how many trials are copied at a time while the study waits.
const maxCopied = 1000

// News implements page.SearchSource.
func (p *Page) News() (news page.SearchNews) {
	s := p.shown()
	if s == nil {
		return news
	}
	var running map[string]int
	news.Summary, running = s.Summary()
	fresh := p.Notes.take()
	news.Progress = fresh.progress
	numbers := slices.Sorted(maps.Keys(fresh.changed))
	if fresh.all {
		numbers = make([]int, s.Len())
		for i := range numbers {
			numbers[i] = i
		}
	}
	for part := range slices.Chunk(numbers, maxCopied) {
		news.Rows = append(news.Rows, s.Rows(part)...)
	}
	p.Notes.addStops(news.Rows)
	news.Summary.Hosts = s.Hosts(running)
	news.Summary.Importance = p.weigher.weigh(news.Summary.Larger, news.Rows, time.Now())
	return news
}

// Curve implements page.SearchSource.
func (p *Page) Curve(trial int) (c page.SearchCurve, ok bool) {
	if s := p.shown(); s != nil {
		return s.Curve(trial)
	}
	return c, false
}

// Detail implements page.SearchSource.
func (p *Page) Detail(trial int) (d page.SearchDetail, ok bool) {
	s := p.shown()
	if s == nil {
		return d, false
	}
	if d, ok = s.Detail(trial); ok {
		d.History, d.Earlier = p.Notes.of(trial)
	}
	return d, ok
}
