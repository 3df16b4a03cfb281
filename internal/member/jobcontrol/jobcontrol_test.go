package jobcontrol_test

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/jobcontrol"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A scheduler answers all control requests with one function.
type scheduler struct {
	answer func(ctx context.Context, request string) (string, error)
	asked  atomic.Int32
}

func (s *scheduler) Buffer(*transport.Request, int) ([]byte, error) {
	return nil, errors.New("a control request has no payload")
}
func (s *scheduler) Drop(*transport.Request) {}
func (s *scheduler) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	s.asked.Add(1)
	var m wire.Control
	if err := wire.DecodeHead(&m, r.Head); err != nil {
		return transport.Response{}, err
	}
	answer, err := s.answer(ctx, m.Request)
	return transport.Response{Message: &wire.Report{Answer: answer}}, err
}

const secret = "the job's secret"

// listen returns the address at which s serves processes that have the secret.
func (s *scheduler) listen(t *testing.T) string {
	t.Helper()
	ln, err := transport.Auto.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := transport.NewServer(ln, s, transport.Config{Network: transport.Auto, Secret: []byte(secret), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	done := make(chan error, 1)
	go func() { done <- srv.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(srv.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return srv.Addr().String()
}

func credentials(secret string) []string {
	return []string{"PARAGON_SECRET_OF_ANOTHER=zz", "PARAGON_SECRET=" + hex.EncodeToString([]byte(secret)), "PARAGON_SECRET=00"}
}

// started writes the record of a job whose launcher is this process.
func started(t *testing.T, r record.Record) {
	t.Helper()
	dir, err := record.Dir(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	f, err := record.Write(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Remove() })
}

// A job is found by its launcher, and its scheduler asked with the job's secret. The answer is
// returned as it came, too.
func TestJobIsFoundAndAsked(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	s := &scheduler{answer: func(_ context.Context, request string) (string, error) {
		q, err := control.DecodeRequest([]byte(request))
		if err == nil && (q.Op != control.OpScale || q.Workers != 3) {
			err = errors.New("got " + request)
		}
		return `{"scale":7}`, err
	}}
	started(t, record.Record{Job: "other", PID: os.Getpid() + 1, Scheduler: "127.0.0.1:1"})
	started(t, record.Record{Job: "j", PID: os.Getpid(), Scheduler: s.listen(t), Credentials: credentials(secret)})
	job, err := jobcontrol.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var done control.Done
	raw, err := job.Ask(t.Context(), control.Request{Op: control.OpScale, Workers: 3}, &done)
	if err != nil || job.Job != "j" || done.Scale != 7 || string(raw) != `{"scale":7}` {
		t.Errorf("job %q: got %+v, %q, %v, want scale 7 of job j", job.Job, done, raw, err)
	}
}

// While no record names the launcher, ErrNoJob tells callers to ask again. A record that cannot be
// opened is another error.
func TestOfTellsNoJobFromOneThatCannotBeOpened(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if _, err := jobcontrol.Of(os.Getpid()); !errors.Is(err, jobcontrol.ErrNoJob) {
		t.Errorf("without records: got %v, want ErrNoJob", err)
	}
	started(t, record.Record{Job: "j", PID: os.Getpid(), Scheduler: "127.0.0.1:1", Credentials: credentials(secret)})
	if _, err := jobcontrol.Of(os.Getpid() + 1); !errors.Is(err, jobcontrol.ErrNoJob) {
		t.Errorf("of another launcher: got %v, want ErrNoJob", err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("HOME", "")
	if _, err := jobcontrol.Of(os.Getpid()); err == nil || errors.Is(err, jobcontrol.ErrNoJob) || !strings.Contains(err.Error(), "set XDG_RUNTIME_DIR or HOME") {
		t.Errorf("without a folder: got %v, want one that says what to set", err)
	}
}

// A refusal is ErrRefused, whether the scheduler answers with it, refuses the request itself, or
// the request is no valid one and is never sent. What could not be asked is another error: callers
// ask again.
func TestRefusalsAreToldFromFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer      string
		err         error
		q           control.Request
		credentials []string
		refused     bool
		asked       bool
		want        string
	}{
		"answer":            {answer: `{"error":"it is over"}`, refused: true, asked: true, want: "it is over"},
		"nack":              {err: &transport.Refusal{Code: wire.CodeMalformed, Text: "no such field"}, refused: true, asked: true, want: "no such field"},
		"invalid request":   {q: control.Request{Op: "grab"}, refused: true, want: `op "grab"`},
		"no JSON":           {answer: `{`, asked: true, want: "answer"},
		"another secret":    {credentials: credentials("another"), want: "secret"},
		"unreadable secret": {credentials: []string{"PARAGON_SECRET=0g"}, want: "PARAGON_SECRET: want hexadecimal digits"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scheduler{answer: func(context.Context, string) (string, error) { return c.answer, c.err }}
			job := jobcontrol.Job{Record: record.Record{Job: "j", Scheduler: s.listen(t), Credentials: c.credentials}}
			if c.credentials == nil {
				job.Credentials = credentials(secret)
			}
			if c.q.Op == "" {
				c.q.Op = control.OpStop
			}
			_, err := job.Ask(t.Context(), c.q, &control.Done{})
			if err == nil || errors.Is(err, control.ErrRefused) != c.refused || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, ErrRefused %t, want %q, %t", err, errors.Is(err, control.ErrRefused), c.want, c.refused)
			}
			if asked := s.asked.Load() > 0; asked != c.asked {
				t.Errorf("the scheduler was asked: %t, want %t", asked, c.asked)
			}
		})
	}
}

// A question ends with its context, and without a scheduler at once.
func TestQuestionEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &scheduler{answer: func(ctx context.Context, _ string) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}}
	job := jobcontrol.Job{Record: record.Record{Scheduler: s.listen(t), Credentials: credentials(secret)}}
	if _, err := job.Ask(ctx, control.Request{Op: control.OpStatus}, &control.Status{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	ln, err := transport.TCP.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	job.Scheduler = ln.Addr().String()
	ln.Close()
	if _, err := job.Ask(t.Context(), control.Request{Op: control.OpStatus}, &control.Status{}); err == nil || errors.Is(err, control.ErrRefused) || !strings.Contains(err.Error(), job.Scheduler) {
		t.Errorf("without a scheduler: got %v, want an error that names %s", err, job.Scheduler)
	}
}
