package tune

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/nodes"
)

// A statusPage serves Config.StatusListen. As an observer it only notes which trials change and
// what was decided. Rows are copied from the study's view only while a page is open.
type statusPage struct {
	cfg    *Config
	params []Param // one of each name
	server *page.Server
	url    string // with a token: it works once
	study  atomic.Pointer[Study]

	mu       sync.Mutex // guards the rest; it may be taken while a study's is held, never the other way round
	begun    bool       // all trials were told of
	changed  map[int]bool
	history  map[int]*trialHistory
	progress page.SearchProgress // not told yet
	best     float64             // the newest of progress; NaN: none
	weighed  weighed
}

// A trialHistory is what happened to a trial.
type trialHistory struct {
	notes    []page.SearchNote // the newest maxNotes
	earlier  int               // those that were left out
	stop     *page.SearchNote  // the decision that ended its newest attempt
	replicas string            // what the newest division gave it
}

// maxNotes bounds the notes of a trial.
const maxNotes = 200

// newStatusPage starts to serve a page, without a study yet: see serve. Its error is that of
// listening, or of an address that other machines can reach.
func newStatusPage(cfg *Config) (*statusPage, error) {
	p := &statusPage{cfg: cfg, params: uniqueParams(cfg.shown()), changed: make(map[int]bool), history: make(map[int]*trialHistory), best: math.NaN()}
	host, _ := os.Hostname()
	head := page.SearchState{Name: cfg.Name, Scheduler: typeOf(cfg.Scheduler, FIFO{}), Suggester: typeOf(cfg.Suggester, Random{}), Params: p.axes()}
	for _, s := range pageStates {
		head.States = append(head.States, string(s))
	}
	key := page.NewKey()
	feed := page.NewSearch(page.Page{Name: cfg.Name, Host: host, Started: time.Now().UnixMilli()}, head, p)
	var err error
	if p.server, err = page.Listen(page.Config{Listen: cfg.StatusListen, Feed: feed, Key: key, Logger: cfg.Logger}); err != nil {
		if errors.Is(err, page.ErrPublic) {
			err = fmt.Errorf("%w, which a search cannot have; use an address of this machine, such as 127.0.0.1:0, and ssh -L", err)
		}
		return nil, fmt.Errorf("tune: config: StatusListen %q: %w", cfg.StatusListen, err)
	}
	p.url = key.Link(p.server.URL())
	return p, nil
}

// uniqueParams has one parameter of each name.
func uniqueParams(s Space) (params []Param) {
	for _, q := range s {
		if !slices.ContainsFunc(params, func(x Param) bool { return x.Name == q.Name }) {
			params = append(params, q)
		}
	}
	return params
}

// serve shows an open study, and logs the link. p may be nil.
func (p *statusPage) serve(s *Study) {
	if p == nil {
		return
	}
	p.study.Store(s)
	s.logger.Info(fmt.Sprintf("live page of the search: %s (works once)", p.url))
}

// close ends the page. p may be nil.
func (p *statusPage) close() {
	if p != nil {
		_ = p.server.Close() // it shows the end to those who watch
	}
}

// pageStates are the states of trials in the order of the page.
var pageStates = []State{Running, Pending, Paused, Completed, Pruned, Failed, Stopped}

// maxCategories is how many values of a choice of numbers are places of their own on an axis.
const maxCategories = 40

// axes describes the parameters.
func (p *statusPage) axes() []page.SearchParam {
	defaults, _ := p.cfg.Space.Defaults(Params{})
	var axes []page.SearchParam
	for _, one := range p.params {
		a := page.SearchParam{Name: one.Name, Kind: string(one.Kind), Low: page.Precise(math.Inf(1)), High: page.Precise(math.Inf(-1)), Whole: true}
		numbers, unbounded := true, false
		var when []string
		for _, q := range p.cfg.shown() { // a name may stand for several, under different branches
			if q.Name != one.Name {
				continue
			}
			switch q.Kind {
			case KindReal, KindInt:
				a.Low, a.High = min(a.Low, page.Precise(q.Low)), max(a.High, page.Precise(q.High))
				a.Log = a.Log || q.Spec.Log
			case KindNormal, KindLogNormal:
				unbounded = true
				a.Log = a.Log || q.Kind == KindLogNormal
			case KindDerived:
				unbounded = true
				x, ok := defaults.Get(q.Name)
				if _, number := number(x); !ok || !number {
					numbers = false
				}
			default:
				few := len(q.Values) <= maxCategories
				for _, v := range q.Values {
					x, number := number(v)
					if few || !number {
						numbers = false
					}
					if number {
						a.Low, a.High = min(a.Low, page.Precise(x)), max(a.High, page.Precise(x))
					}
					if text := page.SearchText(v); !slices.Contains(a.Choices, text) {
						a.Choices = append(a.Choices, text)
					}
				}
			}
			a.Whole = a.Whole && q.Kind == KindInt
			if q.Parent != "" {
				values := make([]string, len(q.ParentValues))
				for i, v := range q.ParentValues {
					values[i] = page.SearchText(v)
				}
				when = append(when, q.Parent+" = "+strings.Join(values, " or "))
			}
		}
		switch {
		case numbers:
			a.Choices = nil
			if unbounded {
				a.Low, a.High = page.Precise(math.NaN()), page.Precise(math.NaN())
			}
		case a.Choices == nil: // they show in trials
			a.Choices = []string{}
		}
		a.When = strings.Join(when, "; ")
		axes = append(axes, a)
	}
	return axes
}

// News implements page.SearchSource.
func (p *statusPage) News() (news page.SearchNews) {
	s := p.study.Load()
	if s == nil {
		return news
	}
	s.mu.Lock()
	s.show() // the end of an attempt may wait for the event after it
	s.mu.Unlock()
	p.mu.Lock()
	changed, first := p.changed, !p.begun
	p.changed, p.begun = make(map[int]bool), true
	news.Progress, p.progress = p.progress, page.SearchProgress{}
	p.mu.Unlock()
	var numbers []int
	if !first {
		numbers = slices.Sorted(maps.Keys(changed))
	}
	var running map[string]int
	var mode Mode
	s.View(func(v View) {
		if first {
			numbers = make([]int, v.Len())
			for i := range numbers {
				numbers[i] = i
			}
		}
		news.Summary, running = p.summary(s, v)
		mode = v.Mode()
	})
	for part := range slices.Chunk(numbers, maxCopied) {
		s.View(func(v View) {
			for _, n := range part {
				if t := v.Trial(n); t != nil {
					news.Rows = append(news.Rows, p.row(v, t))
				}
			}
		})
	}
	p.mu.Lock()
	for i := range news.Rows {
		x := &news.Rows[i]
		if h := p.history[x.Number]; h != nil && h.stop != nil {
			x.StopStep, x.StopValue, x.StopBound = h.stop.Step, float64(h.stop.Value), float64(h.stop.Bound)
		}
	}
	p.mu.Unlock()
	news.Summary.Hosts = p.hosts(running)
	news.Summary.Importance = p.importance(mode, news.Rows)
	return news
}

// maxCopied is how many trials are copied at a time while the study waits.
const maxCopied = 1000

// summary is what is known of the study as a whole, and how many trials run at each location. The
// study's mu is held.
func (p *statusPage) summary(s *Study, v View) (page.SearchUpdate, map[string]int) {
	u := page.SearchUpdate{
		Elapsed: page.Precise(s.elapsed().Seconds()), Metric: v.Metric(), Larger: v.Mode() != Min, Further: furtherGoals(v),
		Planned: max(s.l.plan.total, 0), Parallel: max(cmp.Or(p.cfg.Parallel, 1), 0), Exhausted: v.Exhausted(), Halted: s.l.halted, Missed: s.l.missed(), Over: s.closed,
	}
	if s.l.haltErr != "" {
		u.Halted += ": " + s.l.haltErr
	}
	if u.Over {
		u.Elapsed = page.Precise(v.Elapsed().Seconds())
	}
	running := make(map[string]int)
	for t := range v.Trials() {
		if t.State == Running {
			running[t.Location]++
		}
	}
	return u, running
}

// furtherGoals are the objectives after the first, and the constraints, for people.
func furtherGoals(v View) string {
	var b strings.Builder
	for _, o := range v.Objectives()[1:] {
		best := "largest"
		if o.Mode == Min {
			best = "smallest"
		}
		b.WriteString(" and " + best + " " + o.Metric)
	}
	before := ", with "
	for _, c := range v.Constraints() {
		b.WriteString(before + c.String())
		before = " and "
	}
	return b.String()
}

// mostViolation stands for an infinite violation, which is no number of JSON.
const mostViolation = 1e300

// row copies a trial. The study's mu is held.
func (p *statusPage) row(v View, t *Trial) page.SearchRow {
	x := page.SearchRow{
		Number: t.Number, State: slices.Index(pageStates, t.State), Value: v.Result(t), Violation: min(v.Violation(t), mostViolation), BestStep: -1, Step: -1, Reports: len(t.Reports), Attempts: t.Attempts,
		Started: t.StartedAt.Seconds(), Ended: t.EndedAt.Seconds(), Trained: t.Elapsed.Seconds(), Location: t.Location, Rule: t.Reason(), Failure: string(t.Failure),
		Replicas: t.Placement.Replicas(), StopStep: -1, StopValue: math.NaN(), StopBound: math.NaN(),
	}
	if last, ok := t.LastStep(); ok {
		x.Step = last
	}
	if t.Best >= 0 && t.Best < len(t.Reports) {
		x.BestStep = t.Reports[t.Best].Step
	}
	if t.State != Failed {
		x.Failure = ""
	}
	x.Params = make([]any, len(p.params))
	for i, q := range p.params {
		x.Params[i], _ = t.Params.Get(q.Name)
	}
	return x
}

// hosts are the machines that run trials. running counts trials by location.
func (p *statusPage) hosts(running map[string]int) (all []page.SearchHost) {
	j, ok := p.cfg.Runner.(*Jobs)
	if !ok {
		total := 0
		for _, n := range running {
			total += n
		}
		name, _ := os.Hostname()
		return []page.SearchHost{{Name: cmp.Or(name, nodes.LocalName), Running: total, Slots: max(p.cfg.Parallel, 1), SlotsUsed: total}}
	}
	for _, u := range j.usage() {
		h := page.SearchHost{Name: u.Name, Slots: u.Slots, SlotsUsed: u.UsedSlots, CPUs: u.CPUs, CPUsUsed: u.UsedCPUs, GPUs: u.GPUs, GPUsUsed: u.UsedGPUs, Leaving: u.Leaving}
		for location, n := range running {
			if isAt(location, u.Name) {
				h.Running += n
			}
		}
		all = append(all, h)
	}
	return all
}

// isAt says whether a location, such as "a1:gpu0,a2" or "a1 x2, a2", has a host in it.
func isAt(location, host string) bool {
	for part := range strings.SplitSeq(location, ",") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(part), host); ok && (rest == "" || strings.HasPrefix(rest, ":gpu") || strings.HasPrefix(rest, " x")) {
			return true
		}
	}
	return false
}

// Curve implements page.SearchSource.
func (p *statusPage) Curve(trial int) (c page.SearchCurve, ok bool) {
	t, metric, ok := p.trial(trial)
	if !ok {
		return c, false
	}
	c = page.SearchCurve{Trial: trial, Metric: metric, Step: []int{}}
	for _, r := range t.Reports {
		if r.judged() {
			c.Step, c.Value = append(c.Step, r.Step), append(c.Value, page.Precise(r.Value))
		}
	}
	c.Forecast = forecastOf(&t)
	return c, true
}

// forecastOf is how a trial is predicted to end, nil if it is not.
func forecastOf(t *Trial) *page.SearchForecast {
	f := t.Forecast()
	if f == nil {
		return nil
	}
	return &page.SearchForecast{Step: f.Step, Mean: page.Precise(f.Mean), Low: page.Precise(f.Low), High: page.Precise(f.High)}
}

// trial is a copy of a trial, and the study's metric.
func (p *statusPage) trial(number int) (t Trial, metric string, ok bool) {
	s := p.study.Load()
	if s == nil {
		return t, "", false
	}
	s.View(func(v View) {
		if x := v.Trial(number); x != nil {
			t, ok = x.Clone(), true
		}
		metric = v.Metric()
	})
	return t, metric, ok
}

// maxShownMetrics bounds the metrics of a trial that a page shows.
const maxShownMetrics = 24

// Detail implements page.SearchSource.
func (p *statusPage) Detail(trial int) (d page.SearchDetail, ok bool) {
	t, metric, ok := p.trial(trial)
	if !ok {
		return d, false
	}
	d = page.SearchDetail{Trial: trial, Name: t.Name(), State: string(t.State), Origin: string(t.Origin), Location: t.Location, Error: t.Error, Failure: string(t.Failure),
		Params: []page.SearchSetting{}, Metrics: []page.SearchCurve{}, History: []page.SearchNote{}, Checkpoints: []page.SearchCheckpoint{}}
	for name, value := range t.Params.All() {
		d.Params = append(d.Params, page.SearchSetting{Name: name, Value: page.SearchText(value)})
	}
	for _, c := range t.Checkpoints {
		d.Checkpoints = append(d.Checkpoints, page.SearchCheckpoint{Step: c.Step, Bytes: c.Bytes})
	}
	d.Metrics = curvesOf(&t, metric)
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.history[trial]; h != nil {
		d.History, d.Earlier = slices.Clone(h.notes), h.earlier
	}
	return d, true
}

// curvesOf are the metrics of a trial over its steps, the study's first and the others by name.
func curvesOf(t *Trial, metric string) []page.SearchCurve {
	curves := make(map[string]*page.SearchCurve)
	for _, r := range t.Reports {
		for _, m := range r.Metrics {
			c := curves[m.Name]
			if c == nil {
				c = &page.SearchCurve{Trial: t.Number, Metric: m.Name}
				if m.Name == metric {
					c.Forecast = forecastOf(t)
				}
				curves[m.Name] = c
			}
			c.Step, c.Value = append(c.Step, r.Step), append(c.Value, page.Precise(m.Value))
		}
	}
	names := slices.SortedFunc(maps.Keys(curves), func(a, b string) int {
		if c := b2i(b == metric) - b2i(a == metric); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	all := []page.SearchCurve{}
	for _, name := range names[:min(len(names), maxShownMetrics)] {
		all = append(all, *curves[name])
	}
	return all
}
