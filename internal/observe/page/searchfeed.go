package page

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// SearchNews is what a search tells since it was last asked.
type SearchNews struct {
	// Summary comes without Words, Trials and Progress.
	Summary SearchUpdate

	// Rows are trials that are new or changed, by number.
	Rows []SearchRow

	// Progress has further moments at which the best value became better.
	Progress SearchProgress
}

// A SearchSource is a running search, as its page sees it. What it returns is a copy. Its methods
// may be called concurrently.
type SearchSource interface {
	// News returns what changed since the call before; the first call returns everything. It is
	// called once a second while a page is open.
	News() SearchNews
	// Detail is one trial; false: there is no trial of this number.
	Detail(trial int) (SearchDetail, bool)
	// Curve is a trial's value of the study's metric over its steps; false: there is no trial
	// of this number.
	Curve(trial int) (SearchCurve, bool)
}

// A Search is the Feed of a search.
type Search struct {
	page Page

	// head has Name, Scheduler, Suggester, States and Params.
	head SearchState

	source SearchSource

	// mu guards the fields below.
	mu sync.Mutex

	rows *rows

	// known says that there has been News.
	known bool

	summary  SearchUpdate
	progress SearchProgress

	// The fields below say what streams do not have yet.

	// changed has the numbers of the trials that have changed since the last Update.
	changed map[int]bool

	// words is how many words of the table watchers have.
	words int

	// moments is how many moments of progress watchers have.
	moments int
}

// maxProgress bounds the moments of SearchProgress; with more, every second one is left out.
const maxProgress = 2000

// NewSearch returns the Feed of a search. head has what does not change: Name, Scheduler,
// Suggester, States and Params.
func NewSearch(p Page, head SearchState, source SearchSource) *Search {
	p.Kind = KindSearch
	s := &Search{page: p, head: head, source: source, rows: newRows(head.Params), changed: make(map[int]bool)}
	s.summary.Hosts, s.summary.Importance = []SearchHost{}, []SearchImportance{}
	return s
}

// Page implements Feed.
func (s *Search) Page() Page { return s.page }

// Poll implements Feed.
func (s *Search) Poll(context.Context) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.known
	s.take()
	u := s.update()
	m := NewMessage(EventUpdate, u)
	if first {
		m = s.whole()
	}
	m.Last = u.Over
	return m
}

// take asks for news and applies them. s.mu is held.
func (s *Search) take() {
	news := s.source.News()
	s.known = true
	for _, x := range news.Rows {
		s.rows.put(x)
		s.changed[x.Number] = true
	}
	s.summary = news.Summary
	if s.summary.Hosts == nil {
		s.summary.Hosts = []SearchHost{}
	}
	if s.summary.Importance == nil {
		s.summary.Importance = []SearchImportance{}
	}
	p := &s.progress
	p.At, p.Value, p.Trial = append(p.At, news.Progress.At...), append(p.Value, news.Progress.Value...), append(p.Trial, news.Progress.Trial...)
	for len(p.At) > maxProgress {
		*p = p.half()
		s.moments = 0
	}
}

// update is what streams do not have yet. s.mu is held.
func (s *Search) update() SearchUpdate {
	u := s.summary
	u.WordsBefore, u.Words = s.words, s.rows.words[s.words:]
	u.Trials = s.rows.some(slices.Sorted(maps.Keys(s.changed)))
	n := s.moments
	u.Progress = SearchProgress{Before: n, At: s.progress.At[n:], Value: s.progress.Value[n:], Trial: s.progress.Trial[n:]}
	s.words, s.moments = len(s.rows.words), len(s.progress.At)
	clear(s.changed)
	return u
}

// half is every second moment, and the newest.
func (p SearchProgress) half() (h SearchProgress) {
	for i := (len(p.At) + 1) % 2; i < len(p.At); i += 2 {
		h.At, h.Value, h.Trial = append(h.At, p.At[i]), append(h.Value, p.Value[i]), append(h.Trial, p.Trial[i])
	}
	return h
}

// Whole implements Feed.
func (s *Search) Whole() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []Message{s.whole()}
}

// whole is everything. s.mu is held.
func (s *Search) whole() Message {
	all := s.head
	all.SearchUpdate = s.summary
	all.Words = s.rows.words
	all.Trials = s.rows.all()
	all.Progress = s.progress
	return NewMessage(EventState, all)
}

// Routes implements Feed.
func (s *Search) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"/api/search": s.serveState, "/api/search/trial": s.serveTrial, "/api/search/curves": s.serveCurves}
}

func (s *Search) serveState(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()

	// Streams get it with the next Poll.
	s.take()
	m := s.whole()
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(m.Data)
}

func (s *Search) serveTrial(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("id"))
	if err != nil {
		http.Error(w, fmt.Sprintf("id is %.40q, want the number of a trial, such as 7", r.URL.Query().Get("id")), http.StatusBadRequest)
		return
	}
	d, ok := s.source.Detail(n)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no trial %d", n), http.StatusNotFound)
		return
	}
	for i, c := range d.Metrics {
		d.Metrics[i] = c.Thin(maxDetailReports)
	}
	writeJSON(w, d)
}

func (s *Search) serveCurves(w http.ResponseWriter, r *http.Request) {
	words := strings.Split(r.URL.Query().Get("id"), ",")
	if len(words) > maxCurves {
		http.Error(w, fmt.Sprintf("got %d trials, want at most %d", len(words), maxCurves), http.StatusBadRequest)
		return
	}
	all := SearchCurves{Curves: []SearchCurve{}}
	for _, word := range words {
		n, err := strconv.Atoi(word)
		if err != nil {
			http.Error(w, fmt.Sprintf("id has %.40q, want numbers of trials with commas between, such as 1,7", word), http.StatusBadRequest)
			return
		}
		if c, ok := s.source.Curve(n); ok {
			all.Curves = append(all.Curves, c.Thin(maxCurvePoints))
		}
	}
	writeJSON(w, all)
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
