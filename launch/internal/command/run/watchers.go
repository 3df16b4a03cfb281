package run

import (
	"strings"

	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/otel"
)

// watchers are those who see the job from outside while it runs. Each may be missing.
type watchers struct {
	page  *livePage
	spans *otel.Tracer

	// sourced is asked by the list of hosts that others keep.
	sourced sourceJob
}

// watch opens the job's page and its spans, and has the job say to all watchers where its scheduler
// is whenever it starts.
func (r *jobRun) watch(cfg *job.Config) (*watchers, error) {
	w := &watchers{}
	r.onClose(followSource(r.env.Source, cfg.Elastic.Files, &w.sourced))
	var err error
	if w.page, err = openPage(r.o.Observed.Page, strings.Join(r.o.Command, " "), r.env.Log); err != nil {
		return nil, err
	}
	if w.spans = openSpans(r.o, r.env.Log); w.spans != nil {
		cfg.Watcher = w.spans
	}
	cfg.Listening = func(where job.Where) (func(), error) { return r.listening(w, where), nil }
	return w, nil
}

// listening tells the watchers where the job's scheduler is. What it returns tells them that it is
// gone.
func (r *jobRun) listening(w *watchers, where job.Where) (gone func()) {
	w.page.started(where)
	follow := func() {}
	if w.spans != nil {
		follow = w.spans.Follow(jobScheduler{where})
	}
	where.Credentials = append(where.Credentials[:len(where.Credentials):len(where.Credentials)], w.page.credentials()...)
	ended := []func(){
		follow,
		r.record(where),
		w.sourced.started(where),
		r.answerRemote(where, w.page),
	}
	return func() {
		for _, f := range ended {
			f()
		}
	}
}

// end tells the watchers how the job ended.
func (w *watchers) end(res *job.Result, err error) {
	closeSpans(w.spans, res, err)
	w.page.close(*res, err)
}
