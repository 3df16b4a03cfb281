package tune

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/searchpage"
)

// A studyPage is the page that a study serves at Config.StatusListen. The methods of a nil page do
// nothing.
type studyPage struct {
	page     *searchpage.Page
	observer pageObserver
}

// newStudyPage starts to serve a page, without a study yet, and has it told of events. It is nil if
// the config asks for none.
func newStudyPage(cfg *Config) (*studyPage, error) {
	if cfg.StatusListen == "" {
		return nil, nil
	}
	c := searchpage.Config{Listen: cfg.StatusListen, Name: cfg.Name, Scheduler: typeOf(cfg.Scheduler, FIFO{}), Suggester: typeOf(cfg.Suggester, Random{}), Params: pageParams(cfg), Logger: cfg.Logger}
	for _, s := range pageStates {
		c.States = append(c.States, string(s))
	}
	page, err := searchpage.Listen(c)
	if err != nil {
		return nil, fmt.Errorf("tune: config: StatusListen %q: %w", cfg.StatusListen, err)
	}
	p := &studyPage{page, pageObserver{cfg: cfg, notes: &page.Notes}}
	cfg.Observers = append(slices.Clip(cfg.Observers), &p.observer)
	return p, nil
}

// note takes note of an event that is read from the log.
func (p *studyPage) note(v View, e *Event) {
	if p != nil {
		p.observer.note(v, e)
	}
}

// show shows a study, which is open, and logs the link.
func (p *studyPage) show(cfg *Config, rec *recorder, logger *slog.Logger) {
	if p != nil {
		link := p.page.Show(&pageStudy{cfg: cfg, rec: rec, params: uniqueParams(cfg.shown())})
		logger.Info(fmt.Sprintf("live page of the search: %s (works once)", link))
	}
}

// close ends the page.
func (p *studyPage) close() {
	if p != nil {
		_ = p.page.Close()
	}
}

// A pageStudy is a study as its page asks for it.
type pageStudy struct {
	cfg *Config
	rec *recorder
	// params are those of the space, one of each name.
	params []Param
}

// Summary implements searchpage.Study. It first shows the page the events that are on the disk: the
// end of an attempt may else wait for the event after it.
func (p *pageStudy) Summary() (u page.SearchUpdate, running map[string]int) {
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	p.rec.show()
	return summary(p.rec)
}

// Len implements searchpage.Study.
func (p *pageStudy) Len() (n int) {
	p.rec.look(func(v View) { n = v.Len() })
	return n
}

// Rows implements searchpage.Study.
func (p *pageStudy) Rows(numbers []int) (rows []page.SearchRow) {
	p.rec.look(func(v View) {
		for _, n := range numbers {
			if t := v.Trial(n); t != nil {
				rows = append(rows, rowOf(v, t, p.params))
			}
		}
	})
	return rows
}

// Hosts implements searchpage.Study.
func (p *pageStudy) Hosts(running map[string]int) (all []page.SearchHost) {
	cfg := p.cfg
	j, ok := cfg.Runner.(*Jobs)
	if !ok {
		total := 0
		for _, n := range running {
			total += n
		}
		name, _ := os.Hostname()
		return []page.SearchHost{{Name: cmp.Or(name, nodes.LocalName), Running: total, Slots: max(cfg.Parallel, 1), SlotsUsed: total}}
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

// Curve implements searchpage.Study.
func (p *pageStudy) Curve(trial int) (c page.SearchCurve, ok bool) {
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

// Detail implements searchpage.Study.
func (p *pageStudy) Detail(trial int) (d page.SearchDetail, ok bool) {
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
	return d, true
}

// trial is a copy of a trial, and the study's metric.
func (p *pageStudy) trial(number int) (t Trial, metric string, ok bool) {
	p.rec.look(func(v View) {
		if x := v.Trial(number); x != nil {
			t, ok = x.Clone(), true
		}
		metric = v.Metric()
	})
	return t, metric, ok
}
