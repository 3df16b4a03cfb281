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
)

// A worker that gets SIGTERM leaves an elastic job alone, and the job goes on; and workers that wait
// for another one in the place of a lost worker take no step. So the scheduler is told of an
// interrupt before any worker is; one that is out of reach holds nobody up.
func TestTheSchedulerIsToldThatAllStop(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(s *setup, f *fakeScheduler)
		asked    []string
		at, late time.Duration
	}{
		{"elastic", func(*setup, *fakeScheduler) {}, []string{"stop"}, 5 * time.Second, 0},
		{"scheduler away", func(_ *setup, f *fakeScheduler) { f.away = true }, nil, 5 * time.Second, stopAskTime},
		{"fixed size", func(s *setup, f *fakeScheduler) { s.cfg.Elastic = Elastic{Control: f.control} }, nil, 5 * time.Second, 0},
		{"fixed size, waiting for a lost worker", func(s *setup, f *fakeScheduler) {
			s.cfg.Elastic = Elastic{Control: f.control, OnWorkerLoss: LossWait}
		}, []string{"stop"}, 5 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := setup{interrupts: make(chan os.Signal)}
			f := newFakeScheduler()
			s.elastic(t, f)
			tc.change(&s, f)
			begin := time.Now()
			time.AfterFunc(tc.at, func() { s.interrupts <- syscall.SIGINT })
			var told []time.Duration
			res, err := s.run(t, func(p *proc) {
				p.after(forEver, 0)
				if p.env["DMLC_ROLE"] == "worker" {
					s.local.mu.Lock()
					told = append(told, time.Since(begin))
					s.local.mu.Unlock()
				}
			})
			if err != nil || res.Code != 130 {
				t.Errorf("%s: code %d, %v, want 130", tc.name, res.Code, err)
			}
			if !slices.Equal(f.asked(), tc.asked) {
				t.Errorf("%s: the scheduler was asked %q, want %q", tc.name, f.asked(), tc.asked)
			}
			if want := []time.Duration{tc.at + tc.late, tc.at + tc.late}; !slices.Equal(told, want) {
				t.Errorf("%s: workers had SIGTERM after %v, want %v", tc.name, told, want)
			}
		})
	}
}

// A worker that somebody told to end, and that the scheduler has let go, is none that was lost:
// nobody takes its place, and the job's end is that of the others. Its host stays as long as
// another worker is there.
func TestAWorkerThatLeavesAloneIsNotReplaced(t *testing.T) {
	for _, tc := range []struct {
		name string
		code int
		late bool // the scheduler reports it after the process has ended
	}{{"in order", 0, false}, {"with a code of its own", 7, false}, {"before the news", 0, true}} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			news := 10*time.Second + 500*time.Millisecond
			if tc.late {
				news += time.Second + 400*time.Millisecond
			}
			f.leaves(news, 4)
			res, err := s.run(t, func(p *proc) {
				if p.name == "worker 1" {
					p.after(12*time.Second, tc.code)
					return
				}
				obedient(time.Minute)(p)
			})
			if err != nil || res.Code != 0 {
				t.Errorf("%s: code %d, %v, want 0", tc.name, res.Code, err)
			}
			if n := len(s.local.procs); n != 4 {
				t.Errorf("%s: %d processes were started, want 4", tc.name, n)
			}
			if want := fmt.Sprintf("101  exit %d, removed", tc.code); !strings.Contains(s.out.String(), want) {
				t.Errorf("%s: the table has no %q:\n%s", tc.name, want, s.out.String())
			}
			if worker, log := s.files(t); worker != "localhost\n" || log != "" {
				t.Errorf("%s: host_worker has %q and its log %q, want the host in the one and nothing in the other", tc.name, worker, log)
			}
		})
	}
}

// One that was let go and does not end is made to.
func TestAWorkerThatLeftAndStaysIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		begin := time.Now()
		f.leaves(6*time.Second+500*time.Millisecond, 4)
		var took time.Duration
		res, err := s.run(t, func(p *proc) {
			if p.name == "worker 1" {
				p.after(forEver, 0)
				took = time.Since(begin)
				return
			}
			obedient(time.Minute)(p)
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0", res.Code, err)
		}
		if want := 7*time.Second + leaveTime; took != want {
			t.Errorf("it had SIGTERM after %s, want %s", took, want)
		}
	})
}

// The job does not go on without the worker that somebody sent SIGTERM: all stop with a checkpoint,
// and so the scheduler exits with 0. The job ends at once, and launch says who is to blame.
func TestAnElasticJobThatStoppedInOrderEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		begin := time.Now()
		res, err := s.run(t, func(p *proc) {
			switch p.env["DMLC_ROLE"] {
			case "worker":
				p.after(20*time.Second, 143)
			case "server":
				p.after(20*time.Second+20*time.Millisecond, 0)
			default:
				p.after(20*time.Second+10*time.Millisecond, 0)
			}
		})
		if err != nil || res.Code != 143 {
			t.Errorf("Run: code %d, %v, want 143", res.Code, err)
		}
		if took := time.Since(begin); took > 21*time.Second {
			t.Errorf("the launcher ended after %s, want the 20 s of the workers", took)
		}
		if want := "launch: the job has ended: all workers stopped cleanly: one of them got SIGTERM from outside the launcher\n"; !strings.HasSuffix(s.out.String(), want) {
			t.Errorf("the output does not end in %q:\n%s", want, s.out.String())
		}
	})
}
