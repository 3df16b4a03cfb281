package job

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A worker that the scheduler lets go may end before the scheduler says that it has left, and with
// any code: nobody takes its place.
func TestAWorkerThatEndsAsItLeavesIsNotReplaced(t *testing.T) {
	for _, code := range []int{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			f.leaves(10*time.Second+500*time.Millisecond, 4)
			res, err := s.run(t, func(p *proc) {
				if p.name == "worker 1" {
					p.after(11*time.Second, code)
					return
				}
				obedient(time.Minute)(p)
			})
			if err != nil || res.Code != 0 || len(s.local.procs) != 4 {
				t.Errorf("code %d: Run: code %d, %v, %d processes were started, want 0 and 4", code, res.Code, err, len(s.local.procs))
			}
			if want := fmt.Sprintf("101  exit %d, removed", code); !strings.Contains(s.out.String(), want) {
				t.Errorf("code %d: the table has no %q:\n%s", code, want, s.out.String())
			}
		})
	}
}

// A host on which a worker has counted, and which cannot be reached any more, has failed after the
// last attempt.
func TestAHostThatCannotBeReachedAgainHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		reached := 0
		s.cfg.Elastic.Here = func(h hosts.Host) bool {
			if h.Name == "127.0.0.2" {
				reached++
			}
			return reached <= 1
		}
		time.AfterFunc(4500*time.Millisecond, func() { s.edit(t, "localhost\n127.0.0.2\n") })
		train := obedient(2 * time.Minute)
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
		if reached != 1+s.cfg.Elastic.Rejoin {
			t.Errorf("the host was tried %d times, want once and %d attempts", reached, s.cfg.Elastic.Rejoin)
		}
		if asked, want := f.asked(), []string{"add 127.0.0.2"}; !slices.Equal(asked, want) {
			t.Errorf("the scheduler was asked %q, want %q", asked, want)
		}
	})
}

// Whatever rank a process has by now, the scheduler's failure names the process.
func TestAReasonIsOfRanksAsTheyAreAfterAChange(t *testing.T) {
	for _, reason := range []control.Code{control.NodeLost, control.NodeError, control.NoWorkerLeft} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			s.elastic(t, newFakeScheduler())
			res, err := s.run(t, func(p *proc) {
				switch p.name {
				case "scheduler":
					time.Sleep(10 * time.Second)
					fmt.Fprintln(p.out.Report, failedLine("worker", 5, 3, reason, control.Cause{Kind: control.CauseError, Text: "x"}))
					p.after(forEver, 0)
				case "server 0": // ends for it, before the one that it is about
					p.after(10*time.Second+time.Millisecond, 1)
				case "worker 0":
					p.after(10*time.Second+20*time.Millisecond, 4)
				default:
					p.after(forEver, 0)
				}
			})
			if err != nil || res.Code != 4 {
				t.Errorf("%s: code %d, %v, want 4, of the worker that is to blame", reason, res.Code, err)
			}
		})
	}
}

// A server that was being started again when the job was stopped is told to end with the others.
func TestAServerThatIsStartedTooLateIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup{interrupts: make(chan os.Signal, 1)}
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Backups = 1
		machine := &slow{name: "server 0"}
		s.machine = func(m *fake) Machine {
			machine.fake = m
			return machine
		}
		f.later(time.Second, func(m *membership, now time.Time) { m.people(now, control.Request{Op: control.OpAddServer}) })
		time.AfterFunc(4*time.Second, func() { machine.start.Store(int64(5 * time.Second)) })
		time.AfterFunc(10*time.Second, func() { s.interrupts <- syscall.SIGTERM })
		begin, count := time.Now(), 0
		var signal time.Duration
		_, err := s.run(t, func(p *proc) {
			switch p.name {
			case "server 0":
				if count++; count == 1 {
					p.after(5*time.Second, 9) // another one is there after a second and the time that a start takes
					return
				}
				p.after(forEver, 0)
				signal = time.Since(begin)
			case "scheduler":
				p.stubborn()
			default:
				p.after(forEver, 0)
			}
		})
		if err != nil || count != 2 || signal != 11*time.Second {
			t.Errorf("Run: %v, %d servers were started, the last had a signal after %s, want 2 and 11 s, when it was there", err, count, signal)
		}
	})
}

// The last line of a process stands in the table: of its errors where it failed, else of its
// output.
func TestTheTableHasTheLastLineThatTells(t *testing.T) {
	for _, tc := range []struct {
		stdout, stderr string
		code           int
		want           string
	}{
		{"accuracy 0.9\n", "warning: old format\n", 0, "accuracy 0.9"},
		{"accuracy 0.9\n", "no data\n", 3, "no data"},
		{"accuracy 0.9\n", "", 3, "accuracy 0.9"},
		{"", "warning: old format\n", 0, "warning: old format"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			res, err := s.run(t, func(p *proc) {
				if p.name == "worker 1" {
					fmt.Fprint(p.out.Stdout, tc.stdout)
					fmt.Fprint(p.out.Stderr, tc.stderr)
					p.after(time.Second, tc.code)
					return
				}
				p.after(2*time.Second, 0)
			})
			i := slices.IndexFunc(res.Nodes, func(n *Node) bool { return n.Name() == "worker 1" })
			if err != nil || res.Code != tc.code || i < 0 || res.Nodes[i].Last != tc.want {
				t.Errorf("stdout %q, stderr %q, exit %d: got last line %q, code %d, %v, want %q", tc.stdout, tc.stderr, tc.code, res.Nodes[i].Last, res.Code, err, tc.want)
			}
		})
	}
}

func TestAConfigThatCannotBeIsCodeTwo(t *testing.T) {
	here := Places{Workers: []hosts.Host{hosts.Local}}
	for _, cfg := range []Config{
		{Command: []string{"train"}},
		{Places: here},
		{Places: here, Command: []string{"train"}, Times: Times{StopTimeout: -1}},
		{Places: here, Command: []string{"train"}, Elastic: Elastic{OnWorkerLoss: "cry"}},
		{Places: here, Command: []string{"train"}, Elastic: Elastic{Rejoin: -1}},
	} {
		if res, err := Run(t.Context(), cfg); err == nil || res.Code != 2 {
			t.Errorf("%+v: code %d, %v, want 2 and an error", cfg, res.Code, err)
		}
	}
}

// A server that was removed has done its part, however its process ends.
func TestAServerThatWasRemovedMayEndAsItLikes(t *testing.T) {
	for _, code := range []int{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Backups = 1
			train, starts := obedient(time.Minute), 0
			f.later(5*time.Second, func(m *membership, now time.Time) { m.people(now, control.Request{Op: control.OpAddServer}) })
			f.later(10*time.Second, func(m *membership, now time.Time) {
				m.people(now, control.Request{Op: control.OpRemoveServer, Rank: 0})
			})
			res, err := s.run(t, func(p *proc) {
				if p.name == "server 0" {
					starts++
					p.after(11*time.Second, code)
					return
				}
				train(p)
			})
			i := slices.IndexFunc(res.Nodes, func(n *Node) bool { return n.Name() == "server 0" })
			if err != nil || res.Code != 0 || starts != 1 || res.Nodes[i].fate.code != control.FateRemoved {
				t.Errorf("server 0 ends with %d: code %d, %v, started %d times, fate %q, want 0, once and %q", code, res.Code, err, starts, res.Nodes[i].fate.code, control.FateRemoved)
			}
		})
	}
}

// A host has the limits that it is added with, in host_worker and for its processes.
func TestAnAddedHostHasTheLimitsThatItIsAddedWith(t *testing.T) {
	s := &script{}
	s.do(t, "new elastic=1 rejoin=1 hosts=d1 workers=1")
	s.do(t, "up formed=1")
	s.do(t, "add host=d9 slots=5 gpus=-1 cpus=1")
	if len(s.core.procs.arrivals) != 5 {
		t.Fatalf("%d workers are about to start, want 5", len(s.core.procs.arrivals))
	}
	if got, want := s.core.procs.arrivals[0].host.Entry(), "d9 slots=5 gpus=0 cpus=1"; got != want {
		t.Errorf("the host of a worker is %q, want %q", got, want)
	}
	if got, want := fmt.Sprint(s.core.want.hosts["d9"]), fmt.Sprint(control.WantedHost{Host: "d9", Slots: 5, GPUs: -1, CPUs: 1}); got != want {
		t.Errorf("host_worker is to list %s, want %s", got, want)
	}
}
