package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// SearchNews is what a search tells since it was last asked.
type SearchNews struct {
	Summary SearchUpdate // without Words, Trials and Progress
	Rows    []SearchRow  // trials that are new or changed, by number
	// Progress has further moments at which the best value became better.
	Progress SearchProgress
}

// A SearchSource is a running search, as its page sees it. What it returns is a copy. Its methods may be called concurrently.
type SearchSource interface {
	// News is called once a second while someone watches, and first tells everything.
	News() SearchNews
	// Detail is one trial; false: there is none of this number.
	Detail(trial int) (SearchDetail, bool)
	// Curve is a trial's value of the study's metric over its steps.
	Curve(trial int) (SearchCurve, bool)
}

// A Search is the Feed of a search.
type Search struct {
	page   Page
	head   SearchState // its Name, Scheduler, Suggester, States and Params
	source SearchSource

	mu       sync.Mutex // guards the rest
	rows     *rows
	known    bool // there were News
	summary  SearchUpdate
	progress SearchProgress
	told     int // words that browsers have
}

// maxProgress bounds the moments of SearchProgress; with more, every second one is left out.
const maxProgress = 2000

// NewSearch makes the feed of a search. head has what does not change.
func NewSearch(p Page, head SearchState, source SearchSource) *Search {
	p.Kind = KindSearch
	s := &Search{page: p, head: head, source: source, rows: newRows(head.Params)}
	s.summary.Hosts, s.summary.Importance = []SearchHost{}, []SearchImportance{}
	return s
}

// Page implements Feed.
func (s *Search) Page() Page { return s.page }

// Poll implements Feed.
func (s *Search) Poll(context.Context) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.take(s.source.News())
	m := NewMessage(EventUpdate, u)
	if !s.known {
		s.known = true
		m = s.whole()
	}
	m.Last = u.Over
	return m
}

// take applies news and returns them as an update. s.mu is held.
func (s *Search) take(news SearchNews) SearchUpdate {
	numbers := make([]int, len(news.Rows))
	for i, x := range news.Rows {
		numbers[i] = x.Number
		s.rows.put(x)
	}
	u := news.Summary
	if u.Hosts == nil {
		u.Hosts = []SearchHost{}
	}
	if u.Importance == nil {
		u.Importance = []SearchImportance{}
	}
	s.summary = u
	u.WordsBefore, u.Words = s.told, s.rows.words[s.told:]
	s.told = len(s.rows.words)
	u.Trials = s.rows.some(numbers)
	u.Progress = news.Progress
	u.Progress.Before = len(s.progress.At)
	s.progress.At = append(s.progress.At, news.Progress.At...)
	s.progress.Value = append(s.progress.Value, news.Progress.Value...)
	s.progress.Trial = append(s.progress.Trial, news.Progress.Trial...)
	for len(s.progress.At) > maxProgress {
		s.progress = s.progress.half()
		u.Progress = s.progress // replaces all
		u.Progress.Before = 0
	}
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
	all.WordsBefore, all.Words = 0, s.rows.words[:s.told]
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
	if !s.known {
		s.take(s.source.News())
		s.known = true
	}
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
