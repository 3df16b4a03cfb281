package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// A fakeScheduler answers requests as the scheduler does, and tells of what the test lets happen.
type fakeScheduler struct {
	mu       sync.Mutex
	events   []control.Event
	more     chan struct{} // closed at each event
	requests []string      // but for events, status, lost and left: op host
	left     []string      // op process
	refuse   map[string]string
	away     bool
	phase    string                   // of the job; empty: running
	lost     []uint32                 // the processes that it was told of
	started  func(host string) uint32 // the process of the newest worker that was started there to join
	// decide, if set, is what the scheduler does about a request.
	decide func(s *fakeScheduler, q control.Request)
}

func newFakeScheduler() *fakeScheduler {
	return &fakeScheduler{more: make(chan struct{}), refuse: map[string]string{}}
}

func (s *fakeScheduler) happen(action, host, reason string) {
	s.tell(control.Event{Action: action, Host: host, Reason: reason})
}

func (s *fakeScheduler) tell(e control.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Action == control.Lost && e.Role == "" {
		e.Role = roleWorker
	}
	if e.Action == control.Added && e.Process == 0 && s.started != nil {
		e.Process = s.started(e.Host)
	}
	e.Number, e.TimeNS = uint64(len(s.events)+1), int64(1000+len(s.events))
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *fakeScheduler) is(phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = phase
}

func (s *fakeScheduler) control(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	if addr != "127.0.0.1:4711" || len(credentials) == 0 || !strings.HasPrefix(credentials[0], "PARAGON_SECRET=") {
		return nil, fmt.Errorf("asked %s with %d credentials", addr, len(credentials))
	}
	var q control.Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	away, more, refusal := s.away, s.more, s.refuse[q.Op+" "+q.Host]
	switch {
	case q.Op == "lost" && !away:
		s.lost = append(s.lost, q.Process)
	case q.Op == "left":
		s.left = append(s.left, fmt.Sprintf("left %d", q.Process))
	case q.Op != "events" && q.Op != "status" && q.Op != "lost" && !away:
		s.requests = append(s.requests, strings.TrimSpace(q.Op+" "+q.Host+" "+q.Reason))
	}
	phase := cmp.Or(s.phase, "running")
	s.mu.Unlock()
	switch {
	case away:
		return nil, errors.New("connection refused")
	case refusal != "":
		return nil, fmt.Errorf("%w: %s", control.ErrRefused, refusal)
	case q.Op == "status":
		return fmt.Appendf(nil, `{"phase":%q}`, phase), nil
	case q.Op == "events":
		if uint64(len(s.eventsAfter(q.After))) == 0 {
			select {
			case <-more:
			case <-time.After(time.Duration(q.WaitMillis) * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return json.Marshal(control.Events{Phase: phase, Events: s.eventsAfter(q.After)})
	}
	if s.decide != nil {
		s.decide(s, q)
	}
	if q.Op == "lost" {
		return fmt.Appendf(nil, `{"phase":%q}`, phase), nil
	}
	return []byte(`{}`), nil
}

func (s *fakeScheduler) eventsAfter(n uint64) []control.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events[min(int(n), len(s.events)):])
}

func (s *fakeScheduler) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// elastic makes s a job whose hosts may change.
func (s *setup) elastic(t *testing.T, f *fakeScheduler) {
	t.Helper()
	files, err := hostworker.Open(t.TempDir(), []hosts.Host{hosts.Local})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	f.started = func(host string) (process uint32) {
		s.local.mu.Lock()
		defer s.local.mu.Unlock()
		for _, p := range s.local.procs {
			if p.env["DMLC_ROLE"] == roleWorker && p.env["PARAGON_JOIN"] == "1" && p.env["DMLC_NODE_HOST"] == host {
				process = max(process, p.process())
			}
		}
		return process
	}
	s.cfg.Elastic = Elastic{Enabled: true, Control: f.control, Files: files, State: "journal", Rejoin: 2}
}

// edit writes host_worker.
func (s *setup) edit(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.cfg.Elastic.Files.Path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

func (s *setup) files(t *testing.T) (worker, log string) {
	t.Helper()
	for _, f := range []struct {
		path string
		to   *string
	}{{s.cfg.Elastic.Files.Path, &worker}, {s.cfg.Elastic.Files.LogPath, &log}} {
		b, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		*f.to = string(b)
	}
	return worker, log
}

// obedient ends its processes as those of a job do, whose members train for a time.
func obedient(train time.Duration) func(p *proc) {
	begin := time.Now()
	return func(p *proc) {
		if p.env["DMLC_ROLE"] == "worker" {
			p.after(train-time.Since(begin), 0)
		} else {
			p.after(train-time.Since(begin)+time.Second, 0)
		}
	}
}

// agree is a scheduler that does what it is asked, a second later.
func agree(s *fakeScheduler, q control.Request) {
	switch q.Op {
	case "add":
		s.happen(control.AddQueued, q.Host, "")
		time.AfterFunc(2*time.Second, func() { s.happen(control.Added, q.Host, "") })
	case "remove":
		s.happen(control.RemovalQueued, q.Host, "")
		time.AfterFunc(time.Second, func() { s.happen(control.Removed, q.Host, "") })
	case "failed":
		s.happen(control.HostFailed, q.Host, q.Reason)
	}
}

func (s *setup) runLogged(t *testing.T, log *slog.Logger, script func(p *proc)) (Result, error) {
	t.Helper()
	s.logger = log
	return s.run(t, script)
}

// reportLine is the line by which a scheduler reports.
func reportLine(r control.Report) string {
	line, err := r.Line()
	if err != nil {
		panic(err)
	}
	return line
}

var runningLine = reportLine(control.Report{Running: true})

// failedLine says that a node on localhost was lost: the process of that number, of the rank that
// the scheduler knows it by.
func failedLine(role string, rank int, process uint32, code control.Code, cause control.Cause) string {
	return reportLine(control.Report{Failed: &control.Failure{Code: code, Role: role, Rank: rank, Host: "localhost", Process: process, Cause: cause, Left: 1, Least: 2}})
}

// presenceLine says that the node of a process has registered, or is gone.
func presenceLine(role string, rank int, process uint32, here bool) string {
	p := &control.Presence{Role: role, Rank: rank, Process: process}
	if here {
		return reportLine(control.Report{Present: p})
	}
	return reportLine(control.Report{Absent: p})
}
