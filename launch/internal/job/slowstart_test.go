package job

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

// slow is a machine on which one process takes a while to be started, whatever has become of the
// job meanwhile.
type slow struct {
	*fake
	name  string
	start atomic.Int64 // nanoseconds
}

func (m *slow) Start(ctx context.Context, spec process.Spec, out process.Output) (process.Handle, error) {
	if spec.Name == m.name {
		time.Sleep(time.Duration(m.start.Load()))
	}
	return m.fake.Start(context.WithoutCancel(ctx), spec, out)
}

// A worker whose start takes until it is no longer wanted is told to end at once: nobody else would
// end it, and the job would wait for it.
func TestAWorkerThatIsStartedTooLateIsEnded(t *testing.T) {
	const came = 20 * time.Second // after the begin, when the late worker's process is there
	for _, tc := range []struct {
		name   string
		change func(s *setup, f *fakeScheduler, train *time.Duration) // what happens before that
		ended  bool
		code   int
	}{
		{"it is wanted", func(*setup, *fakeScheduler, *time.Duration) {}, false, 0},
		{"the others are done", func(_ *setup, _ *fakeScheduler, train *time.Duration) { *train = came - time.Second }, true, 0},
		{"the scheduler is done", func(s *setup, _ *fakeScheduler, _ *time.Duration) {
			s.cfg.Env = append(s.cfg.Env, "SCHEDULER=15s")
		}, true, 0},
		{"its host is removed", func(_ *setup, f *fakeScheduler, _ *time.Duration) {
			f.later(came-3*time.Second, func(m *membership, now time.Time) {
				m.people(now, control.Request{Op: control.OpRemove, Host: "127.0.0.2"})
			})
		}, true, 0},
		{"the job is stopped", func(s *setup, _ *fakeScheduler, _ *time.Duration) {
			time.AfterFunc(came-time.Second, func() { s.interrupts <- syscall.SIGTERM })
		}, true, 143},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := setup{interrupts: make(chan os.Signal, 2)}
				f := newFakeScheduler()
				f.stuck = func(control.ObservedProcess) bool { return true }
				s.elastic(t, f)
				train := time.Minute
				tc.change(&s, f, &train)
				begin := time.Now()
				var late, first time.Duration // when it was there, and when it had its first signal
				machine := &slow{name: "worker 2"}
				s.machine = func(m *fake) Machine {
					machine.fake = m
					return machine
				}
				time.AfterFunc(4500*time.Millisecond, func() {
					machine.start.Store(int64(came - 5*time.Second)) // host_worker is read a half second later
					s.edit(t, "localhost\n127.0.0.2\n")
				})
				res, err := s.run(t, func(p *proc) {
					switch {
					case p.name == "worker 2":
						late = time.Since(begin)
						p.after(30*time.Second, 0)
						if p.exit.Signal != 0 {
							first = time.Since(begin)
						}
					case p.name == "scheduler" && p.env["SCHEDULER"] != "":
						p.after(15*time.Second, 0)
					case p.env["DMLC_ROLE"] == "worker":
						p.after(train, 0)
					default:
						p.after(train+time.Second, 0)
					}
				})
				if err != nil || res.Code != tc.code {
					t.Errorf("Run: code %d, %v, want %d", res.Code, err, tc.code)
				}
				if late != came {
					t.Fatalf("the worker was there after %s, want %s", late, came)
				}
				if tc.ended && first != came || !tc.ended && first != 0 {
					t.Errorf("the worker that came late had a signal after %s (0: never), want one at once: %v", first, tc.ended)
				}
			})
		})
	}
}

// All machines are closed when the job has ended, and one that was not left clean is told.
func TestEveryMachineIsClosedWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		machines := map[string]*unclean{}
		connect := func(name string) *unclean {
			m := &unclean{fake: &fake{address: "127.0.0.1", procs: map[string]*proc{}, log: &log, script: func(p *proc) {
				p.after(time.Second, 0)
			}}, name: name}
			machines[name] = m
			return m
		}
		here, there, elsewhere := connect(""), connect("127.0.0.2"), connect("127.0.0.3")
		here.launcher, there.launcher, elsewhere.launcher = "", "127.0.0.1", "127.0.0.1"
		res, err := Run(t.Context(), Config{
			Places:  Places{Workers: []hosts.Host{{Name: there.name}, {Name: elsewhere.name}}, Servers: []hosts.Host{{Name: there.name}}},
			Command: []string{"train"}, Role: []string{"role"},
			Dial:  func(_ context.Context, h hosts.Host) (Machine, error) { return machines[h.Name], nil },
			Local: func(context.Context) (Machine, error) { return here, nil },
		})
		if res.Code != 0 {
			t.Errorf("code %d, want 0", res.Code)
		}
		for name, m := range machines {
			if !m.shut {
				t.Errorf("machine %q was not closed", name)
			}
			if want := "machine " + name + " has processes left"; name != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("Run: error %v, want one with %q", err, want)
			}
		}
	})
}

// unclean is a machine with a name that cannot be left clean.
type unclean struct {
	*fake
	name string
}

func (m *unclean) Close() error {
	if err := m.fake.Close(); err != nil || m.name == "" {
		return err
	}
	return errors.New("machine " + m.name + " has processes left")
}

func TestAJobChangesWhereSomethingMayComeOrGo(t *testing.T) {
	control := newFakeScheduler().control
	for _, tc := range []struct {
		e    Elastic
		want bool
	}{
		{Elastic{}, false},
		{Elastic{Rejoin: 3, MinWorkers: 1}, false},
		{Elastic{Enabled: true}, true},
		{Elastic{Enabled: true, OnWorkerLoss: LossFail}, true},
		{Elastic{OnWorkerLoss: LossShrink}, true},
		{Elastic{OnWorkerLoss: LossWait}, true},
		{Elastic{Backups: 1}, true},
		{Elastic{OnWorkerLoss: LossFail, Backups: 1}, true},
		{Elastic{Backups: 2}, true},
	} {
		e := tc.e
		if e.Control = control; e.setDefaults() != nil || e.Changes() != tc.want {
			t.Errorf("%+v: changes %v, want %v", tc.e, e.Changes(), tc.want)
		}
		if e := tc.e; (e.setDefaults() != nil) != tc.want {
			t.Errorf("%+v without a way to ask the scheduler: want an error: %v", tc.e, tc.want)
		}
	}
}

// Who is to blame is the process that the scheduler names, if it failed, whatever rank and host
// others have.
func TestBlameIsOfTheProcessThatFailed(t *testing.T) {
	node := func(number uint32, code int, ended bool) *Node {
		return &Node{Role: roleWorker, Rank: 1, Host: "d1", process: number, ended: ended, Exit: process.Exit{Code: code}}
	}
	all := []*Node{node(1, 0, true), node(2, 3, true), node(3, 3, true), node(4, 0, false)}
	for process, want := range map[uint32][]uint32{0: nil, 1: nil, 2: {2}, 3: {3}, 4: nil, 5: nil} {
		c := &ending{failure: &control.Failure{Code: control.NodeLost, Role: roleWorker, Rank: 1, Host: "d1", Process: process}}
		var got []uint32
		for _, n := range all {
			if c.blames(n) {
				got = append(got, n.process)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("process %d is to blame: got %d, want %d", process, got, want)
		}
	}
	if (&ending{}).blames(all[1]) {
		t.Error("a process is to blame, and nothing failed")
	}
}
