package job

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

func TestEditsOfHostWorkerStartAndEndWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
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
		if want := "0 ADDED 127.0.0.2\n1 REMOVED 127.0.0.2\n2 ADDED 127.0.0.3\n"; log != want {
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
		for _, want := range []string{"Launching new worker jobs: on 127.0.0.2\n", "worker     2     127.0.0.2  102  exit 0, removed"} {
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
			f.do(func(m *membership, now time.Time) {
				m.people(now, control.Request{Op: control.OpAdd, Host: "127.0.0.2"})
			})
			time.Sleep(5 * time.Second)
			if worker, _ := s.files(t); worker != "localhost\n127.0.0.2\n" {
				t.Errorf("host_worker after an add has %q", worker)
			}
			f.do(func(m *membership, now time.Time) {
				m.people(now, control.Request{Op: control.OpRemove, Host: "127.0.0.2"})
			})
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
		if worker, log := s.files(t); worker != "localhost\n" || log != "0 ADDED 127.0.0.2\n1 REMOVED 127.0.0.2\n" {
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
		}, "failed 127.0.0.2 prepare-data: gave up after 20s (--join-timeout)"},
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
				f.stuck = func(control.ObservedProcess) bool { return true }
				s.elastic(t, f)
				tc.change(&s)
				go func() { time.Sleep(5 * time.Second); s.edit(t, "localhost\n127.0.0.2\n") }()
				train := obedient(10 * time.Minute)
				var out strings.Builder
				s.logger = slog.New(slog.NewTextHandler(&out, nil))
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
				if want := "host 127.0.0.2 could not join: " + strings.TrimPrefix(tc.want, "failed 127.0.0.2 ") + "; the job goes on without it"; !strings.Contains(out.String(), want) {
					t.Errorf("the log has no %q:\n%s", want, &out)
				}
				if _, log := s.files(t); log != "" {
					t.Errorf("host_worker_log has %q, want nothing", log)
				}
				if want := "worker 2 on 127.0.0.2 ended before it had joined: exit 3; a worker that joins a running job has to call Ready of its store"; strings.Contains(tc.want, "exit 3") != strings.Contains(out.String(), want) {
					t.Errorf("%q stands in the log, or does not:\n%s", want, &out)
				}
			})
		})
	}
}

func TestDataIsPreparedBeforeTheWorkerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
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
		if want := "0 ADDED 127.0.0.2\n1 REMOVED 127.0.0.2\n"; log != want {
			t.Errorf("host_worker_log has %q, want %q", log, want)
		}
	})
}
