package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// lostEndTime is how long the scheduler gives a process that it has declared lost to end by itself.
const lostEndTime = 5 * time.Second

// A fakeScheduler is a scheduler's core whose nodes do what those of a job do: they register when
// they run, join two seconds after they were started, and leave within a second.
type fakeScheduler struct {
	mu       sync.Mutex
	member   *membership
	cfg      func() settings
	requests []string // those of edits: op host
	reports  []control.Observed
	refuse   map[string]string
	away     bool
	over     bool
	forming  bool // no node registers
	// deaf are processes whose nodes never register, stuck those that do not get ready.
	// unsaid are processes of workers that end with 0 and do not leave.
	deaf, stuck, unsaid func(x control.ObservedProcess) bool
	joining             map[uint32]bool
}

func newFakeScheduler() *fakeScheduler {
	return &fakeScheduler{refuse: map[string]string{}, joining: map[uint32]bool{}}
}

// control is a Control.
func (s *fakeScheduler) control(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	if addr != "127.0.0.1:4711" || len(credentials) == 0 || !strings.HasPrefix(credentials[0], "PARAGON_SECRET=") {
		return nil, fmt.Errorf("asked %s with %d credentials", addr, len(credentials))
	}
	q, err := control.DecodeRequest(request)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type answer struct {
		raw []byte
		err error
	}
	got := make(chan answer, 1)
	s.mu.Lock()
	refusal := s.refuse[q.Op+" "+q.Host]
	switch {
	case s.away:
		s.mu.Unlock()
		return nil, errors.New("connection refused")
	case q.Op == control.OpReport:
		s.reports = append(s.reports, *q.Observed)
	case q.Op != control.OpWanted:
		s.requests = append(s.requests, strings.TrimSpace(q.Op+" "+q.Host+" "+q.Reason))
	}
	s.begin()
	if refusal != "" {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", control.ErrRefused, refusal)
	}
	if q.Op == control.OpReport {
		s.register(q.Observed)
	}
	s.member.control(time.Now(), q, func(raw []byte, err error) { got <- answer{raw, err} })
	s.mu.Unlock()
	select {
	case a := <-got:
		return a.raw, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin begins the job's membership.
func (s *fakeScheduler) begin() {
	if s.member == nil {
		s.member = newMembership(s.cfg(), time.Now())
		s.tick()
	}
}

// complete lets those register that run, of a job that was forming.
func (s *fakeScheduler) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forming = false
	if n := len(s.reports); n > 0 {
		s.register(&s.reports[n-1])
	}
}

// lost are the processes of which the launcher has said that they failed.
func (s *fakeScheduler) lost() (list []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.reports {
		for _, x := range o.Processes {
			if x.State == control.StateEnded && !x.OK() && !slices.Contains(list, x.Process) {
				list = append(list, x.Process)
			}
		}
	}
	return list
}

// register lets the nodes of processes register that run.
func (s *fakeScheduler) register(o *control.Observed) {
	now := time.Now()
	phase, _ := s.member.core.Phase()
	first := phase == wire.PhaseForming
	if s.forming {
		return
	}
	for _, x := range o.Processes {
		switch {
		case x.OK() && x.Role == roleWorker && (s.unsaid == nil || !s.unsaid(x)):
			s.member.leave(now, x.Process, "") // as a worker does that is done
		case x.State != control.StateRunning || s.joining[x.Process] || s.deaf != nil && s.deaf(x):
		case first:
			s.joining[x.Process] = true
			s.member.register(now, x, x.Host, false)
		default:
			s.joining[x.Process] = true
			time.AfterFunc(2*time.Second, func() { s.join(x) })
		}
	}
}

// join lets the node of a process join.
func (s *fakeScheduler) join(x control.ObservedProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.stuck != nil && s.stuck(x) || !s.runs(x.Process) {
		return
	}
	s.member.register(time.Now(), x, x.Host, true)
	s.member.ready(time.Now(), x.Process)
	s.member.arrive(time.Now())
}

// runs reports whether a process ran when the launcher reported last.
func (s *fakeScheduler) runs(process uint32) bool {
	last := s.reports[len(s.reports)-1]
	return slices.ContainsFunc(last.Processes, func(x control.ObservedProcess) bool {
		return x.Process == process && x.State == control.StateRunning
	})
}

// tick lets time pass at the scheduler. Workers arrive at changes within a second.
func (s *fakeScheduler) tick() {
	time.AfterFunc(time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.over {
			s.member.pass(time.Now())
			s.member.arrive(time.Now())
			s.tick()
		}
	})
}

// do lets people or nodes do something.
func (s *fakeScheduler) do(f func(m *membership, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	f(s.member, time.Now())
}

// later lets people or nodes do something after a time.
func (s *fakeScheduler) later(d time.Duration, f func(m *membership, now time.Time)) {
	time.AfterFunc(d, func() { s.do(f) })
}

// leaves lets a worker ask to leave after a time; a second later it has left.
func (s *fakeScheduler) leaves(d time.Duration, process uint32) {
	s.later(d, func(m *membership, now time.Time) {
		m.ask(now, &wire.AskLeave{Node: m.nodes[process], Reason: "it was told to end"}, nil)
	})
}

// fails lets the node of a process say that it has failed, after a time.
func (s *fakeScheduler) fails(d time.Duration, process uint32, why string) {
	s.later(d, func(m *membership, now time.Time) { m.leave(now, process, why) })
}

// of is a predicate for one process.
func of(process uint32) func(x control.ObservedProcess) bool {
	return func(x control.ObservedProcess) bool { return x.Process == process }
}

func (s *fakeScheduler) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// told is how the launcher said last that a process ended; empty: it did not.
func (s *fakeScheduler) told(process uint32) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range slices.Backward(s.reports) {
		for _, x := range o.Processes {
			if x.Process == process && x.State == control.StateEnded {
				return x.Cause.String()
			}
		}
	}
	return ""
}

// elastic makes s a job whose hosts may change.
func (s *setup) elastic(t *testing.T, f *fakeScheduler) {
	t.Helper()
	files, err := hostworker.Open(t.TempDir(), []hosts.Host{hosts.Local})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	f.cfg = func() settings {
		s.ranMu.Lock()
		defer s.ranMu.Unlock()
		return s.ran.settings("j")
	}
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over = true
	})
	s.cfg.Elastic = Elastic{Enabled: true, Control: f.control, Files: files, State: "journal", Rejoin: 2}
}

// edit writes host_worker.
func (s *setup) edit(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.cfg.Elastic.Files.Path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// logTime is the time at the end of a line of host_worker_log.
var logTime = regexp.MustCompile(` [0-9]+\n`)

// files are host_worker and its log, without times.
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
	return worker, logTime.ReplaceAllString(log, "\n")
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
