package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/observe/page"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/jobpage"
)

// What launch ctl page needs, among the credentials of a job's record.
const (
	pageURLVariable = "PARAGON_PAGE_URL"
	pageKeyVariable = "PARAGON_PAGE_KEY"
)

// statusOptions say where the live page is.
type statusOptions struct {
	// listen is host:port; empty: there is no page.
	listen string

	// asked says that the user gave the address: if it cannot be listened on, the job does not
	// start.
	asked bool

	// cert and key are paths of PEM files, both or neither.
	cert, key string
}

// readStatus reads the flags of the live page. A trial of a search has no page unless it is asked
// for: the search has one.
func readStatus(c *cli.Context, trial bool) (s statusOptions, err error) {
	s = statusOptions{listen: c.String(command.PageFlag), asked: c.IsSet(command.PageFlag), cert: c.Path("status-cert"), key: c.Path("status-key")}
	switch {
	case s.listen == command.PageOff || trial && !s.asked:
		s.listen = ""
	case s.listen == "":
		return s, command.Usagef("--%s is empty; want host:port, or %s", command.PageFlag, command.PageOff)
	case !strings.Contains(s.listen, ":"):
		return s, command.Usagef("--%s: address %q: want host:port, or %s", command.PageFlag, s.listen, command.PageOff)
	}
	if (s.cert == "") != (s.key == "") {
		return s, command.Usagef("--status-cert and --status-key belong together; got only one of them")
	}
	return s, nil
}

// A livePage is the page of the job that this process runs. Nil: there is none.
type livePage struct {
	feed   *jobpage.Feed
	server *page.Server
	key    page.Key
}

// openPage starts to serve the page and logs its link. It returns nil, without an error, if the
// page is off, or if the default address cannot be listened on.
func (o *options) openPage(log *slog.Logger) (*livePage, error) {
	s := o.observed.page
	if s.listen == "" {
		return nil, nil
	}
	host, _ := os.Hostname()
	p := &livePage{key: page.NewKey(), feed: jobpage.New(page.Page{Command: strings.Join(o.command, " "), Host: host, Started: time.Now().UnixMilli()}, jobpage.UnixMilli)}
	cfg := page.Config{Listen: s.listen, Feed: p.feed, Key: p.key, Logger: log}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("launch: --status-cert %s: %w", s.cert, err)
		}
		cfg.Certificate = &pair
	}
	var err error
	if p.server, err = page.Listen(cfg); err != nil {
		if errors.Is(err, page.ErrPublic) {
			return nil, fmt.Errorf("launch: --%s %s: %w (--status-cert and --status-key); or use an address of this machine, such as 127.0.0.1:0, and ssh -L", command.PageFlag, s.listen, page.ErrPublic)
		}
		if s.asked {
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
	return []string{pageURLVariable + "=" + p.server.URL(), pageKeyVariable + "=" + base64.StdEncoding.EncodeToString(p.key)}
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

func pageCommand() *cli.Command {
	return &cli.Command{
		Name:  "page",
		Usage: "print a link to the live page of a job",
		Description: `Prints a link to the job's live page. The link works once, in one browser:

   launch ctl page

launch serves the page, on the machine on which it runs. To open it from another machine, run ssh -L 8080:127.0.0.1:PORT HOST there, with the port of the link,
and open the link with localhost:8080 in place of its host and port. See docs/how-to/page.md.`,
		Flags: jobFlags(),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.Usagef("ctl page: got %q, want flags only", c.Args().First())
			}
			k, err := findJob(c, record.Find)
			if err != nil {
				return err
			}
			noPage := fmt.Errorf("launch: job %s has no live page: it was started with --%s %s, it is a trial of a search, or its launch could not listen for it (see launch's log)", k.Job, command.PageFlag, command.PageOff)
			if k.remote != nil {
				link, err := k.remote.Link(c.Context, k.Job)
				switch {
				case err != nil:
					return k.explain(err)
				case link == "":
					return noPage
				}
				fmt.Fprintf(c.App.ErrWriter, "launch: the page is served on %s; if this link does not reach it, see launch ctl page --help\n", k.Host)
				_, err = fmt.Fprintln(c.App.Writer, link)
				return err
			}
			url, key := "", page.Key(nil)
			for _, v := range k.Credentials {
				name, value, _ := strings.Cut(v, "=")
				switch name {
				case pageURLVariable:
					url = value
				case pageKeyVariable:
					key, _ = base64.StdEncoding.DecodeString(value)
				}
			}
			if url == "" || len(key) == 0 {
				return noPage
			}
			_, err = fmt.Fprintln(c.App.Writer, key.Link(url))
			return err
		},
	}
}
