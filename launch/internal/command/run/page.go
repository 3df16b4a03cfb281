package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/jobpage"
)

// A livePage is the page of the job that this process runs. Nil: there is none.
type livePage struct {
	// feed is what the page shows: it asks the scheduler while somebody watches.
	feed *jobpage.Feed

	// server serves the page to browsers.
	server *page.Server

	// key makes links. Whoever has it can open the page.
	key page.Key
}

// openPage starts to serve the page of a job with the command what, and logs its link. It returns
// nil, without an error, if the page is off, or if the default address cannot be listened on.
func openPage(s options.Page, what string, log *slog.Logger) (*livePage, error) {
	if s.Listen == "" {
		return nil, nil
	}
	host, _ := os.Hostname()
	p := &livePage{key: page.NewKey(), feed: jobpage.New(page.Page{Command: what, Host: host, Started: time.Now().UnixMilli()}, jobpage.UnixMilli)}
	cfg := page.Config{Listen: s.Listen, Feed: p.feed, Key: p.key, Logger: log}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("launch: --status-cert %s: %w", s.Cert, err)
		}
		cfg.Certificate = &pair
	}
	var err error
	if p.server, err = page.Listen(cfg); err != nil {
		if errors.Is(err, page.ErrPublic) {
			return nil, fmt.Errorf("launch: --%s %s: %w (--status-cert and --status-key); or use an address of this machine, such as 127.0.0.1:0, and ssh -L", command.PageFlag, s.Listen, page.ErrPublic)
		}
		if s.Asked {
			return nil, fmt.Errorf("launch: --%s: %w", command.PageFlag, err)
		}
		log.Warn(fmt.Sprintf("the job runs without its live page: %v", err))
		return nil, nil
	}
	log.Info(fmt.Sprintf("live page: %s (works once; launch ctl page prints another link)", p.key.Link(p.server.URL())))
	return p, nil
}

// A jobScheduler is the jobpage.Source of a job: it asks the job's scheduler.
type jobScheduler struct{ w job.Where }

// Ask implements jobpage.Source.
func (s jobScheduler) Ask(ctx context.Context, q control.Request, into control.Answer) ([]byte, error) {
	j := jobcontrol.Job{Record: record.Record{Job: s.w.Job, Scheduler: s.w.Scheduler, Credentials: s.w.Credentials}}
	return j.Ask(ctx, q, into)
}

// started tells the page where the job's scheduler is: at the start, and after each restart of the
// job.
func (p *livePage) started(w job.Where) {
	if p != nil {
		p.feed.SetSource(jobScheduler{w})
	}
}

// credentials are what launch ctl page needs to make links, as NAME=value.
func (p *livePage) credentials() []string {
	if p == nil {
		return nil
	}
	return jobpage.Credentials(p.server.URL(), p.key)
}

// link makes a link to the page; empty: there is none.
func (p *livePage) link() string {
	if p == nil {
		return ""
	}
	return p.key.Link(p.server.URL())
}

// close shows open pages how the job ended, and stops the server. p may be nil.
func (p *livePage) close(res job.Result, err error) {
	if p == nil {
		return
	}
	text := ""
	switch {
	case err != nil:
		text = err.Error()
	case res.Code != 0:
		text = fmt.Sprintf("the job has ended with exit code %d", res.Code)
	}
	p.feed.End(err == nil && res.Code == 0, text)

	// What browsers miss at the end is on launch's standard error.
	_ = p.server.Close()
}
