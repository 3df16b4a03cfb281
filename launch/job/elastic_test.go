package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/launch/hosts"
	"github.com/paragon-train/paragon/launch/hostworker"
)

// A fakeScheduler answers requests as the scheduler does, and tells of what the test lets happen.
type fakeScheduler struct {
	mu       sync.Mutex
	events   []Event
	more     chan struct{} // closed at each event
	requests []string      // but for events, status, lost and left: op host
	left     []string      // op host pid
	refuse   map[string]string
	away     bool
	// decide, if set, is what the scheduler does about a request.
	decide func(s *fakeScheduler, q Request)
}

func newFakeScheduler() *fakeScheduler {
	return &fakeScheduler{more: make(chan struct{}), refuse: map[string]string{}}
}

func (s *fakeScheduler) happen(action, host, reason string) {
	s.tell(Event{Action: action, Host: host, Reason: reason})
}

func (s *fakeScheduler) tell(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Action == actionLost && e.Role == "" {
		e.Role = roleWorker
	}
	e.Number, e.Time = uint64(len(s.events)+1), int64(1000+len(s.events))
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
}

func (s *fakeScheduler) control(ctx context.Context, addr string, credentials []string, request []byte) ([]byte, error) {
	if addr != "127.0.0.1:4711" || len(credentials) == 0 || !strings.HasPrefix(credentials[0], "PARAGON_SECRET=") {
		return nil, fmt.Errorf("asked %s with %d credentials", addr, len(credentials))
	}
	var q Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, err
	}
	s.mu.Lock()
	away, more, refusal := s.away, s.more, s.refuse[q.Op+" "+q.Host]
	switch {
	case q.Op == "left":
		s.left = append(s.left, fmt.Sprintf("left %s %d", q.Host, q.PID))
	case q.Op != "events" && q.Op != "status" && q.Op != "lost" && !away:
		s.requests = append(s.requests, strings.TrimSpace(q.Op+" "+q.Host+" "+q.Reason))
	}
	s.mu.Unlock()
	switch {
	case away:
		return nil, errors.New("connection refused")
	case refusal != "":
		return nil, fmt.Errorf("%w: %s", ErrRefused, refusal)
	case q.Op == "status":
		return []byte(`{"phase":"running"}`), nil
	case q.Op == "events":
		if uint64(len(s.eventsAfter(q.After))) == 0 {
			select {
			case <-more:
			case <-time.After(time.Duration(q.WaitMillis) * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return json.Marshal(eventsAnswer{s.eventsAfter(q.After)})
	}
	if s.decide != nil {
		s.decide(s, q)
	}
	return []byte(`{}`), nil
}

func (s *fakeScheduler) eventsAfter(n uint64) []Event {
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
func agree(s *fakeScheduler, q Request) {
	switch q.Op {
	case "add":
		s.happen(actionAddQueued, q.Host, "")
		time.AfterFunc(2*time.Second, func() { s.happen(actionAdded, q.Host, "") })
	case "remove":
		s.happen(actionRemovalQueued, q.Host, "")
		time.AfterFunc(time.Second, func() { s.happen(actionRemoved, q.Host, "") })
	case "failed":
		s.happen(actionFailed, q.Host, q.Reason)
	}
}

func TestEditsOfHostWorkerStartAndEndWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		go func() {
			time.Sleep(10 * time.Second)
			s.edit(t, "localhost\n127.0.0.2 # new\n\n")
			time.Sleep(10 * time.Second)
			s.edit(t, "localhost\n127.0.0.3\n") // one replaced
		}()
		train := obedient(time.Minute)
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_NODE_HOST"] == "127.0.0.2" { // leaves when it is told that it was removed
				p.after(12*time.Second, 0)
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := []string{"add 127.0.0.2", "remove 127.0.0.2", "add 127.0.0.3"}; !slices.Equal(f.asked(), want) {
			t.Errorf("the scheduler was asked %q, want %q", f.asked(), want)
		}
		_, log := s.files(t)
		if want := "0 ADDED 127.0.0.2 1001\n1 REMOVED 127.0.0.2 1004\n2 ADDED 127.0.0.3 1005\n"; log != want {
			t.Errorf("host_worker_log has %q, want %q", log, want)
		}
		w := s.local.procs["worker 2"].env
		for name, want := range map[string]string{"PARAGON_JOIN": "1", "PARAGON_RANK": "-1", "DMLC_NODE_HOST": "127.0.0.2", "PARAGON_STATE": "journal/scheduler-" + w["PARAGON_JOB"]} {
			if w[name] != want {
				t.Errorf("the new worker has %s=%q, want %q", name, w[name], want)
			}
		}
		sched := s.local.procs["scheduler"].env
		for name, want := range map[string]string{"PARAGON_ELASTIC": "1", "PARAGON_ON_WORKER_LOSS": "shrink", "PARAGON_STATE": w["PARAGON_STATE"], "PARAGON_JOIN_TIMEOUT": "5m0s"} {
			if sched[name] != want {
				t.Errorf("the scheduler has %s=%q, want %q", name, sched[name], want)
			}
		}
		if _, first := s.local.procs["worker 0"].env["PARAGON_JOIN"]; first {
			t.Error("a worker of the start has PARAGON_JOIN")
		}
		for _, want := range []string{"Launching new worker jobs :local 127.0.0.2\n", "worker     2     127.0.0.2  102  exit 0, removed"} {
			if !strings.Contains(s.out.String(), want) {
				t.Errorf("the output has no %q:\n%s", want, s.out.String())
			}
		}
	})
}

// What others decide (launch ctl) stands in host_worker, too.
func TestHostWorkerFollowsTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		go func() {
			time.Sleep(5 * time.Second)
			agree(f, Request{Op: "add", Host: "127.0.0.2"})
			time.Sleep(5 * time.Second)
			if worker, _ := s.files(t); worker != "localhost\n127.0.0.2\n" {
				t.Errorf("host_worker after an add has %q", worker)
			}
			agree(f, Request{Op: "remove", Host: "127.0.0.2"})
		}()
		train := obedient(time.Minute)
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_NODE_HOST"] == "127.0.0.2" {
				p.after(7*time.Second, 0)
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if worker, log := s.files(t); worker != "localhost\n" || log != "0 ADDED 127.0.0.2 1001\n1 REMOVED 127.0.0.2 1003\n" {
			t.Errorf("host_worker %q and its log %q", worker, log)
		}
		if len(f.asked()) != 0 {
			t.Errorf("the scheduler was asked %q for what it had decided", f.asked())
		}
	})
}

func TestHostThatCannotJoinFailsAndTheJobGoesOn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s *setup)
		script func(p *proc)
		want   string
	}{
		{"not this machine", func(s *setup) { s.cfg.Elastic.Here = func(hosts.Host) bool { return false } }, nil,
			"failed 127.0.0.2 host 127.0.0.2 is not this machine, where all of this job runs; start the job with -H FILE to have it on several hosts"},
		{"prepare-data fails", func(s *setup) { s.cfg.Elastic.PrepareData = []string{"fetch"} }, func(p *proc) {
			if strings.HasPrefix(p.name, "prepare ") {
				io.WriteString(p.out.Stderr, "no such bucket\n")
				p.exit.Code = 4
			}
		}, "failed 127.0.0.2 prepare-data: exit 4: no such bucket"},
		{"prepare-data takes too long", func(s *setup) {
			s.cfg.Elastic.PrepareData, s.cfg.Elastic.JoinTimeout = []string{"fetch"}, 20*time.Second
		}, func(p *proc) {
			if strings.HasPrefix(p.name, "prepare ") {
				p.stubborn()
			}
		}, "failed 127.0.0.2 prepare-data: not done after 20s (--join-timeout)"},
		{"the worker ends at once, each time", func(s *setup) {}, func(p *proc) {
			if p.env["DMLC_NODE_HOST"] == "127.0.0.2" {
				p.exit.Code = 3
			}
		}, "failed 127.0.0.2 worker 4 ended: exit 3"},
		{"it cannot be started", func(s *setup) { s.cfg.Env = []string{"REFUSE=worker 2"} }, nil, "failed 127.0.0.2 refused to start worker 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s setup
				f := newFakeScheduler()
				f.decide = func(f *fakeScheduler, q Request) {
					if q.Op == "add" {
						f.happen(actionAddQueued, q.Host, "")
					} else {
						agree(f, q)
					}
				}
				s.elastic(t, f)
				tc.change(&s)
				go func() { time.Sleep(5 * time.Second); s.edit(t, "localhost\n127.0.0.2\n") }()
				train := obedient(10 * time.Minute)
				res, err := s.run(t, func(p *proc) {
					if tc.script != nil && p.env["DMLC_NODE_HOST"] == "127.0.0.2" {
						tc.script(p)
						return
					}
					train(p)
				})
				if err != nil || res.Code != 0 {
					t.Errorf("Run: code %d, %v, want 0", res.Code, err)
				}
				if got := f.asked(); len(got) != 2 || got[1] != tc.want {
					t.Errorf("the scheduler was asked %q, want %q last", got, tc.want)
				}
				if _, log := s.files(t); log != "" {
					t.Errorf("host_worker_log has %q, want nothing", log)
				}
			})
		})
	}
}

func TestDataIsPreparedBeforeTheWorkerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		s.cfg.Elastic.PrepareData = []string{"fetch"}
		s.cfg.WorkerEnv = []string{"BUCKET=b"}
		go func() { time.Sleep(5 * time.Second); s.edit(t, "localhost\n127.0.0.2\n") }()
		train, prepared := obedient(time.Minute), false
		_, err := s.run(t, func(p *proc) {
			switch p.name {
			case "prepare 127.0.0.2":
				if p.env["BUCKET"] != "b" || p.env["PARAGON_SECRET"] != "" {
					t.Errorf("prepare-data has BUCKET=%q and a secret of %d digits", p.env["BUCKET"], len(p.env["PARAGON_SECRET"]))
				}
				p.after(10*time.Second, 0)
				prepared = true
				return
			case "worker 2":
				if !prepared {
					t.Error("the worker was started before its data was prepared")
				}
			}
			train(p)
		})
		if err != nil || s.local.procs["worker 2"] == nil {
			t.Errorf("Run: %v, worker 2 is %v", err, s.local.procs["worker 2"])
		}
	})
}

func TestRefusedRemovalIsToldAndTheJobGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		var log strings.Builder
		f := newFakeScheduler()
		f.refuse["remove localhost"] = "the job needs 1 worker at least"
		s.elastic(t, f)
		go func() { time.Sleep(5 * time.Second); s.edit(t, "127.0.0.2\n") }()
		res, err := s.runLogged(t, slog.New(slog.NewTextHandler(&log, nil)), obedient(time.Minute))
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := "host_worker: remove localhost: refused: the job needs 1 worker at least"; !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	})
}

// A removed worker that does not end by itself is stopped.
func TestRemovedWorkerIsMadeToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n")
		}()
		train := obedient(2 * time.Minute)
		var took time.Duration
		res, err := s.run(t, func(p *proc) {
			if p.name != "worker 2" {
				train(p)
				return
			}
			p.stubborn()
			took = time.Since(p.start)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if took < leaveTime || took > leaveTime+15*time.Second {
			t.Errorf("the worker was killed %s after its start, want some 6 s, %s and the 4 s after SIGTERM later", took, leaveTime)
		}
		if want := "removed, had to be stopped"; !strings.Contains(s.out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, s.out.String())
		}
	})
}

// The scheduler ends with the job, and may not have told of the last removal.
func TestHostThatLeftAsTheJobEndedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = func(f *fakeScheduler, q Request) {
			if q.Op == "remove" {
				f.happen(actionRemovalQueued, q.Host, "") // and then nothing
				return
			}
			agree(f, q)
		}
		s.elastic(t, f)
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n")
		}()
		train := obedient(13 * time.Second)
		if res, err := s.run(t, func(p *proc) {
			if p.name == "worker 2" {
				p.after(7*time.Second, 0)
				return
			}
			train(p)
		}); err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		_, log := s.files(t)
		if want := "0 ADDED 127.0.0.2 1001\n1 REMOVED 127.0.0.2 "; !strings.HasPrefix(log, want) || strings.Count(log, "\n") != 2 {
			t.Errorf("host_worker_log has %q, want %q and the time", log, want)
		}
	})
}

func (s *setup) runLogged(t *testing.T, log *slog.Logger, script func(p *proc)) (Result, error) {
	t.Helper()
	s.logger = log
	return s.run(t, script)
}

func TestLostWorkerComesAgainAndTheJobGoesOn(t *testing.T) {
	for _, tc := range []struct {
		name     string
		policy   string
		code     int
		attempts int // processes of workers in all
	}{
		{"shrink", LossShrink, 0, 5},
		{"wait", LossWait, 0, 5},
		{"fail", LossFail, 137, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s setup
				f := newFakeScheduler()
				s.elastic(t, f)
				s.cfg.Elastic.OnWorkerLoss = tc.policy
				train := obedient(10 * time.Minute)
				res, err := s.run(t, func(p *proc) {
					switch p.name {
					case "worker 1":
						time.Sleep(10 * time.Second)
						p.exit.Signal = syscall.SIGKILL
						f.happen(actionLost, "localhost", "connection closed")
					case "worker 2":
						time.Sleep(time.Second)
						f.happen(actionAdded, "localhost", "")
						time.Sleep(2 * longLife) // so the next attempt is a first one again
						p.exit.Signal = syscall.SIGKILL
					case "worker 3": // never counts
						time.Sleep(time.Second)
						p.exit.Code = 1
					default:
						train(p)
					}
				})
				if err != nil || res.Code != tc.code {
					t.Errorf("Run: code %d, %v, want %d", res.Code, err, tc.code)
				}
				if _, log := s.files(t); log != "" {
					t.Errorf("host_worker_log has %q, want nothing: worker 0 was on the host all the time", log)
				}
				count := 0
				for name := range s.local.procs {
					if strings.HasPrefix(name, "worker ") {
						count++
					}
				}
				if count != tc.attempts {
					t.Errorf("%d workers were started in all, want %d", count, tc.attempts)
				}
				if tc.code == 0 && !strings.Contains(s.out.String(), "signal 9 (killed), lost, the job went on") {
					t.Errorf("the table does not tell what became of worker 1:\n%s", s.out.String())
				}
			})
		})
	}
}

// A host whose only worker was lost is gone; that an operator then removes it is no second line.
func TestLostHostIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		s.cfg.Elastic.Rejoin = 0
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(12 * time.Second)
			f.tell(Event{Action: actionLost, Host: "127.0.0.2", PID: 102, Reason: "connection closed"})
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n")
		}()
		train := obedient(time.Minute)
		res, err := s.run(t, func(p *proc) {
			if p.name == "worker 2" {
				time.Sleep(10 * time.Second)
				p.exit.Signal = syscall.SIGKILL
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if _, log := s.files(t); log != "0 ADDED 127.0.0.2 1001\n1 REMOVED 127.0.0.2 1002\n" {
			t.Errorf("host_worker_log has %q", log)
		}
	})
}

// A process that the scheduler no longer counts (it was stopped for longer than its lease) makes room for another one.
func TestStaleWorkerIsEndedAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		var took, again time.Duration
		begin := time.Now()
		train := obedient(time.Minute)
		go func() {
			time.Sleep(12 * time.Second)
			f.tell(Event{Action: actionLost, Host: "localhost", PID: 101, Reason: "no heartbeat for 10 s"})
		}()
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 1":
				p.stubborn()
				took = time.Since(begin)
				return
			case "worker 2":
				again = time.Since(begin)
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := 12*time.Second + firstBackOff; again != want {
			t.Errorf("another worker was started after %s, want %s", again, want)
		}
		if want := 12*time.Second + goneTime + 4*time.Second; took != want {
			t.Errorf("the stale one was killed after %s, want %s", took, want)
		}
		if _, log := s.files(t); log != "" {
			t.Errorf("host_worker_log has %q, want nothing: another worker was on the host", log)
		}
	})
}

// Whoever ended is told by the text of the scheduler, who counts workers by their ranks of now, and by who failed on that host.
func TestLastLossDecidesTheExitCodeHoweverRanksWereDealt(t *testing.T) {
	for _, tc := range []struct {
		name       string
		code       int
		table, end string
	}{
		{"failed", 4, "exit 4  ", "lost: x; no worker is left\n"},
		{"told by somebody to stop", 143, "exit 143, somebody sent it SIGTERM", "; somebody else than launch sent it SIGTERM\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Rejoin = 0
			res, err := s.run(t, func(p *proc) {
				switch p.name {
				case "worker 0":
					p.after(10*time.Second, 9)
					f.tell(Event{Action: actionLost, Host: "localhost", PID: 100, Reason: "worker 0 on localhost lost: x"})
				case "worker 1": // rank 0 by now
					p.after(20*time.Second, tc.code)
				case "server 0": // hears of the end sooner than the launcher hears of the scheduler's
					time.Sleep(20*time.Second + 40*time.Millisecond)
					p.exit.Code = 1
				case "scheduler":
					time.Sleep(20*time.Second + 30*time.Millisecond)
					fmt.Fprintln(p.out.Report, FailedLine("worker 0 on localhost lost: x; no worker is left"))
					time.Sleep(30 * time.Millisecond)
					p.exit.Code = 1
				}
			})
			if err != nil || res.Code != tc.code {
				t.Errorf("%s: code %d, %v, want %d", tc.name, res.Code, err, tc.code)
			}
			if got := s.out.String(); !strings.Contains(got, tc.table) || !strings.HasSuffix(got, tc.end) {
				t.Errorf("%s: the output has no %q, or does not end in %q:\n%s", tc.name, tc.table, tc.end, got)
			}
		})
	}
}

// A worker that ended with 0 and that the scheduler holds for lost, since it never left the job, did not do its part.
func TestWorkerThatEndsWithoutLeavingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Rejoin = 0
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(30*time.Second, 9)
			case "worker 1":
				time.AfterFunc(15*time.Second, func() {
					f.tell(Event{Action: actionLost, Host: "localhost", PID: 101, Reason: "no heartbeat for 10 s"})
				})
				p.after(5*time.Second, 0)
			default:
				p.after(time.Minute, 0)
			}
		})
		if err != nil || res.Code != 9 || !strings.Contains(s.out.String(), "exit 0, lost, the job went on") {
			t.Errorf("Run: code %d, %v, want 9, and that worker 1 was lost:\n%s", res.Code, err, s.out.String())
		}
	})
}

// A loss that is one too many decides the exit code, and not those who failed for it.
func TestLossThatTheJobDoesNotSurviveDecidesTheExitCode(t *testing.T) {
	for _, lost := range []string{"worker 0", "server 0"} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			s.elastic(t, newFakeScheduler())
			s.cfg.Elastic.Backups = 1
			res, err := s.run(t, func(p *proc) {
				switch p.name {
				case lost:
					p.after(10*time.Second, 9)
				case "scheduler":
					time.Sleep(10*time.Second + 50*time.Millisecond)
					fmt.Fprintln(p.out.Report, FailedLine(lost+" on localhost lost: x; that is too much"))
					time.Sleep(30 * time.Millisecond)
					p.exit.Code = 1
				default: // the others fail for it, one by one
					time.Sleep(10*time.Second + 60*time.Millisecond)
					p.exit.Code = 1
				}
			})
			if err != nil || res.Code != 9 || strings.Contains(s.out.String(), "exit 9,") {
				t.Errorf("%s: code %d, %v, want 9, and no word that the job went on:\n%s", lost, res.Code, err, s.out.String())
			}
		})
	}
}

// The scheduler says when too few workers are left; the exit code is that of the worker whose loss was too much.
func TestLossThatIsTooMuchDecidesTheExitCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.MinWorkers = 2
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 1":
				p.after(10*time.Second, 3)
			case "scheduler":
				time.Sleep(10*time.Second + 50*time.Millisecond)
				fmt.Fprintln(p.out.Report, FailedLine("worker 1 on localhost lost: connection closed; 1 worker is left, want 2"))
				p.exit.Code = 1
			default:
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 3 {
			t.Errorf("Run: code %d, %v, want 3", res.Code, err)
		}
		if want := "launch: the job failed: worker 1 on localhost lost: connection closed; 1 worker is left, want 2\n"; !strings.HasSuffix(s.out.String(), want) {
			t.Errorf("the output does not end in %q:\n%s", want, s.out.String())
		}
	})
}

func TestSchedulerThatDiesIsStartedAgainWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		begin := time.Now()
		train := obedient(time.Minute)
		var again []time.Duration
		res, err := s.run(t, func(p *proc) {
			if p.name != "scheduler" {
				train(p)
				return
			}
			if len(again) > 0 && p.env["DMLC_PS_ROOT_PORT"] != "4711" {
				t.Errorf("the scheduler was started again for port %s, want 4711", p.env["DMLC_PS_ROOT_PORT"])
			}
			if again = append(again, time.Since(begin)); len(again) < 3 {
				p.after(10*time.Second, 0)
				p.exit.Signal = syscall.SIGKILL
				return
			}
			train(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := []time.Duration{0, 10 * time.Second, 20*time.Second + 250*time.Millisecond}; !slices.Equal(again, want) {
			t.Errorf("the scheduler was started at %v, want %v", again, want)
		}
		if n := strings.Count(s.out.String(), "signal 9 (killed), started again"); n != 2 {
			t.Errorf("the table tells of %d schedulers that were started again, want 2:\n%s", n, s.out.String())
		}
	})
}

// Requests that come while the scheduler is away are made when it is back.
func TestEditWhileTheSchedulerIsAwayIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = agree
		s.elastic(t, f)
		set := func(away bool) { f.mu.Lock(); f.away = away; f.mu.Unlock() }
		go func() {
			time.Sleep(5 * time.Second)
			set(true)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(20 * time.Second)
			set(false)
		}()
		if _, err := s.run(t, obedient(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, log := s.files(t); log != "0 ADDED 127.0.0.2 1001\n" {
			t.Errorf("host_worker_log has %q", log)
		}
	})
}

func TestSchedulerWithoutStateIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		s.cfg.Elastic.State = ""
		res, err := s.run(t, func(p *proc) {
			if p.name == "scheduler" {
				p.after(time.Minute, 7)
			} else {
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 7 {
			t.Errorf("Run: code %d, %v, want 7", res.Code, err)
		}
	})
}

func TestLostServerIsReplacedWhereThereAreBackups(t *testing.T) {
	for _, backups := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			s.elastic(t, newFakeScheduler())
			s.cfg.Elastic.Backups = backups
			train, servers := obedient(time.Minute), 0
			res, err := s.run(t, func(p *proc) {
				if p.name == "server 0" {
					if servers++; servers == 1 {
						p.after(10*time.Second, 9)
						return
					}
					if p.env["PARAGON_JOIN"] != "1" || p.env["PARAGON_RANK"] != "0" {
						t.Errorf("the new server has PARAGON_JOIN=%q and PARAGON_RANK=%q, want 1 and 0", p.env["PARAGON_JOIN"], p.env["PARAGON_RANK"])
					}
				}
				train(p)
			})
			wantCode, wantServers := 0, 2
			if backups == 0 {
				wantCode, wantServers = 9, 1
			}
			if err != nil || res.Code != wantCode || servers != wantServers {
				t.Errorf("%d backups: code %d, %v, %d servers, want code %d, %d servers", backups, res.Code, err, servers, wantCode, wantServers)
			}
		})
	}
}

// The launcher starts servers that the scheduler wants, tells of those that it cannot start, and lets those go that were removed.
func TestServersAreStartedAndLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Backups = 1
		train, got := obedient(time.Minute), map[string]int{}
		go func() {
			time.Sleep(5 * time.Second)
			f.tell(Event{Action: actionServerQueued, Rank: 1})
			f.tell(Event{Action: actionServerQueued, Rank: 2, Host: "d/7"})
			time.Sleep(time.Second)
			f.tell(Event{Action: actionServerAdded, Rank: 1, Host: "localhost"})
			time.Sleep(10 * time.Second)
			f.tell(Event{Action: actionServerRemoved, Rank: 0, Host: "localhost"})
		}()
		res, err := s.run(t, func(p *proc) {
			p.m.mu.Lock()
			got[p.name]++
			p.m.mu.Unlock()
			switch p.name {
			case "server 0":
				p.after(17*time.Second, 0)
				return
			case "server 1":
				if p.env["PARAGON_JOIN"] != "1" || p.env["PARAGON_RANK"] != "1" || p.env["DMLC_NUM_SERVER"] != "1" {
					t.Errorf("the new server has PARAGON_JOIN=%q, PARAGON_RANK=%q and DMLC_NUM_SERVER=%q, want 1, 1 and 1",
						p.env["PARAGON_JOIN"], p.env["PARAGON_RANK"], p.env["DMLC_NUM_SERVER"])
				}
			}
			train(p)
		})
		if err != nil || res.Code != 0 || got["server 0"] != 1 || got["server 1"] != 1 || got["server 2"] != 0 {
			t.Errorf("Run: code %d, %v, servers started: %v; want 0, and servers 0 and 1 once", res.Code, err, got)
		}
		for _, n := range res.Nodes {
			if n.Name() == "server 0" && n.fate != "removed" {
				t.Errorf("server 0: got %q, want removed", n.fate)
			}
		}
		if asked := f.asked(); len(asked) != 1 || !strings.HasPrefix(asked[0], "server-failed  ") || !strings.Contains(asked[0], "d/7") {
			t.Errorf("the scheduler was asked %q, want word of server 2, which cannot be", asked)
		}
	})
}

// A server that the scheduler no longer counts is replaced, also when its process does not end. Workers beside it have nothing to do
// with that, even if there is but one.
func TestStaleServerIsReplacedAndWorkersStay(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Backups = 1
			var log bytes.Buffer
			s.logger = slog.New(slog.NewTextHandler(&log, nil))
			begin := time.Now()
			train, servers, took := obedient(time.Minute), 0, time.Duration(0)
			var workers atomic.Int32
			go func() {
				time.Sleep(12 * time.Second)
				f.tell(Event{Action: actionLost, Host: "localhost", Role: "server", PID: 100, Reason: "server 0 on localhost lost: no heartbeat for 10 s"})
			}()
			res, err := s.run(t, func(p *proc) {
				switch {
				case p.name == "server 0":
					if servers++; servers == 1 {
						p.stubborn()
						took = time.Since(begin)
						return
					}
				case p.name == "worker 1" && alone:
					p.after(time.Second, 0)
					return
				case p.env["DMLC_ROLE"] == "worker":
					workers.Add(1)
				}
				train(p)
			})
			if err != nil || res.Code != 0 || servers != 2 || took != 12*time.Second+goneTime {
				t.Errorf("Run: code %d, %v, %d servers, the first ended after %s; want 0, 2 servers, %s", res.Code, err, servers, took, 12*time.Second+goneTime)
			}
			if got, want := workers.Load(), map[bool]int32{false: 2, true: 1}[alone]; got != want {
				t.Errorf("%d workers were started, want %d", got, want)
			}
			if want := "host localhost lost a server: server 0"; !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log.String())
			}
		})
	}
}

// Workers that were started again on a host that has others are told apart: the one that counts is waited for to the end of its work,
// also behind the end of the others, and the one that never came to count is not.
func TestJobEndsWithThoseThatCameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		begin := time.Now()
		var ends time.Duration
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(30*time.Second, 0)
			case "worker 1":
				p.after(5*time.Second, 9)
				f.tell(Event{Action: actionLost, Host: "localhost", PID: 101})
			case "worker 2":
				p.after(5*time.Second, 9) // has not counted yet
			case "worker 3": // counts, and has more to do than worker 0
				time.Sleep(time.Second)
				f.tell(Event{Action: actionAdded, Host: "localhost", Role: "worker", PID: 103})
				p.after(40*time.Second-time.Since(begin), 0)
				ends = time.Since(begin)
			case "scheduler", "server 0":
				p.after(31*time.Second, 0)
			default:
				t.Errorf("%s was started", p.name)
			}
		})
		if err != nil || res.Code != 0 || ends != 40*time.Second || time.Since(begin) > 45*time.Second {
			t.Errorf("Run: code %d, %v, after %s, worker 3 ended after %s; want 0, after 40 s\n%s", res.Code, err, time.Since(begin), ends, s.out.String())
		}
	})
	synctest.Test(t, func(t *testing.T) { // the scheduler has ended, one worker has more to do, and the other waits in vain
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		begin := time.Now()
		var ends time.Duration
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(60*time.Second, 0)
			case "worker 1":
				p.after(25*time.Second, 9)
				f.tell(Event{Action: actionLost, Host: "localhost", PID: 101})
			case "worker 2":
				p.after(forEver, 0)
				ends = time.Since(begin)
			case "scheduler", "server 0":
				p.after(30*time.Second, 0)
			default:
				t.Errorf("%s was started", p.name)
			}
		})
		if err != nil || res.Code != 0 || ends != 30*time.Second+goneTime || time.Since(begin) != time.Minute {
			t.Errorf("Run: code %d, %v, after %s, worker 2 was ended after %s; want 0 after a minute, %s\n%s", res.Code, err, time.Since(begin), ends, 30*time.Second+goneTime, s.out.String())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(5*time.Second, 9)
				f.tell(Event{Action: actionLost, Host: "localhost", PID: 100})
			case "worker 2": // takes its place
				time.Sleep(2 * time.Second)
				f.tell(Event{Action: actionAdded, Host: "localhost", Role: "worker", PID: 102})
				p.after(30*time.Second-time.Since(begin), 0)
			case "worker 1":
				p.after(6*time.Second, 9)
				f.tell(Event{Action: actionLost, Host: "localhost", PID: 101})
			case "worker 3":
				p.after(forEver, 0) // looks for a scheduler that is gone
			default:
				p.after(31*time.Second, 0)
			}
		})
		if took := time.Since(begin); err != nil || res.Code != 0 || took > 35*time.Second {
			t.Errorf("Run: code %d, %v, after %s, want 0 after 31 s\n%s", res.Code, err, took, s.out.String())
		}
	})
}

// When what starts processes on the launching machine is gone, all of a local job is, and nothing is started again.
func TestLocalJobWhoseMachineIsLostFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		s.cfg.Elastic.Backups = 1
		s.lostAt = 10 * time.Second
		var count atomic.Int32
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			count.Add(1)
			time.Sleep(s.lostAt)
			p.exit.Code, p.exit.Err = 255, "connection to the agent lost"
		})
		if took := time.Since(begin); err != nil || res.Code != 255 || count.Load() != 4 || took > 15*time.Second {
			t.Errorf("Run: code %d, %v, %d processes, after %s; want 255, the 4 of the start, soon after %s", res.Code, err, count.Load(), took, s.lostAt)
		}
	})
}

// A worker that is still joining when all others are done is not waited for.
func TestJobEndsWithItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		f.decide = func(f *fakeScheduler, q Request) { f.happen(actionAddQueued, q.Host, "") }
		s.elastic(t, f)
		go func() { time.Sleep(5 * time.Second); s.edit(t, "localhost\n127.0.0.2\n127.0.0.3\n") }()
		begin := time.Now()
		train := obedient(time.Minute)
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_NODE_HOST"] != "localhost" {
				p.after(forEver, 0)
				return
			}
			train(p)
		})
		if took := time.Since(begin); err != nil || res.Code != 0 || took > 70*time.Second {
			t.Errorf("Run: code %d, %v, after %s, want 0 after a minute", res.Code, err, took)
		}
	})
}

func TestInterruptEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{interrupts: make(chan os.Signal, 2)}
		f := newFakeScheduler()
		f.decide = func(f *fakeScheduler, q Request) { f.happen(actionAddQueued, q.Host, "") }
		s.elastic(t, f)
		s.cfg.Elastic.PrepareData = []string{"fetch"}
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(5 * time.Second)
			s.interrupts <- syscall.SIGINT
		}()
		begin := time.Now()
		res, err := s.run(t, func(p *proc) { p.after(forEver, 0) })
		if took := time.Since(begin); err != nil || res.Code != 130 || took > 20*time.Second {
			t.Errorf("Run: code %d, %v, after %s, want 130 after some 10 s", res.Code, err, took)
		}
		if p := s.local.procs["prepare 127.0.0.2"]; p == nil || p.exit.Signal == 0 {
			t.Errorf("prepare-data was not ended: %+v", p)
		}
	})
}

// The scheduler is told of workers that are done, also of the last one, with which the job ends: they may have been cut off from it.
func TestSchedulerIsToldOfWorkersThatAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		res, err := s.run(t, obedient(time.Minute))
		if err != nil || res.Code != 0 {
			t.Fatalf("Run: code %d, %v, want 0", res.Code, err)
		}
		var want []string
		for _, n := range res.Nodes {
			if n.Role == roleWorker {
				want = append(want, fmt.Sprintf("left localhost %d", n.PID))
			}
		}
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		slices.Sort(f.left)
		if slices.Sort(want); !slices.Equal(f.left, want) {
			t.Errorf("the scheduler was told %q, want %q", f.left, want)
		}
	})
}

func TestJobWithoutAnyWorkerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		s.cfg.Elastic.Rejoin = 0
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			if p.env["DMLC_ROLE"] == "worker" {
				p.after(time.Minute, 5)
			} else {
				p.after(forEver, 0)
			}
		})
		if took := time.Since(begin); err != nil || res.Code != 5 || took > 2*time.Minute {
			t.Errorf("Run: code %d, %v, after %s, want 5 soon after a minute", res.Code, err, took)
		}
		if want := "launch: the job failed: no worker is left\n"; !strings.HasSuffix(s.out.String(), want) {
			t.Errorf("the output does not end in %q:\n%s", want, s.out.String())
		}
	})
}
