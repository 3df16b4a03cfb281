package run

import (
	"strings"

	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/command/start"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/otel"
)

// watchers are those who see the job from outside while it runs: browsers, the collector of spans,
// launch ctl here and on other machines, and the list of hosts that others keep. Each may be
// missing.
//
// A job that is started again has a new scheduler each time. The watchers outlive it: they are told
// where it is by listening.
type watchers struct {
	// page is nil if there is none, and so is spans.
	page  *livePage
	spans *otel.Tracer

	// sourced is asked by the list of hosts that others keep, until unfollow is called.
	sourced  sourceJob
	unfollow func()

	// ctl is for launch ctl, here and on other machines.
	ctl registry
}

// watch opens the job's page and its spans, and has the job say to all watchers where its scheduler
// is whenever it starts.
func watch(o *options.Options, env start.Environment, cfg *job.Config) (*watchers, error) {
	w := &watchers{ctl: registry{command: o.Command, folder: env.Folder, remote: env.Control, log: env.Log}}
	var err error
	if w.page, err = openPage(o.Observed.Page, strings.Join(o.Command, " "), env.Log); err != nil {
		return nil, err
	}
	if w.spans = openSpans(o, env.Log); w.spans != nil {
		cfg.Observer = w.spans
	}
	w.unfollow = followSource(env.Source, cfg.Elastic.Files, &w.sourced)
	cfg.Listening = func(where job.Where) (func(), error) { return w.listening(where), nil }
	return w, nil
}

// listening tells the watchers where the job's scheduler is. What it returns tells them that it is
// gone.
func (w *watchers) listening(where job.Where) (gone func()) {
	w.page.started(where)
	unspan := func() {}
	if w.spans != nil {
		unspan = w.spans.Follow(jobScheduler{where})
	}
	where.Credentials = append(where.Credentials[:len(where.Credentials):len(where.Credentials)], w.page.credentials()...)
	ended := []func(){unspan, w.ctl.record(where), w.sourced.started(where), w.ctl.answerRemote(where, w.page.link)}
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
