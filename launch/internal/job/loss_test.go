package job

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

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
					case "worker 2":
						time.Sleep(2*time.Minute + time.Second) // so the next attempt is a first one again
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
		s.elastic(t, f)
		s.cfg.Elastic.Rejoin = 0
		go func() {
			time.Sleep(5 * time.Second)
			s.edit(t, "localhost\n127.0.0.2\n")
			time.Sleep(17 * time.Second)
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
		if _, log := s.files(t); log != "0 ADDED 127.0.0.2\n1 REMOVED 127.0.0.2\n" {
			t.Errorf("host_worker_log has %q", log)
		}
	})
}

// A process that the scheduler no longer counts (it was stopped for longer than its lease) makes
// room for another one.
func TestStaleWorkerIsEndedAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		var took, again time.Duration
		begin := time.Now()
		train := obedient(time.Minute)
		f.fails(12*time.Second, 4, "no heartbeat for 10 s")
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
		if want := 12*time.Second + lostEndTime + 4*time.Second; took != want {
			t.Errorf("the stale one was killed after %s, want %s", took, want)
		}
		if _, log := s.files(t); log != "" {
			t.Errorf("host_worker_log has %q, want nothing: another worker was on the host", log)
		}
	})
}

// The scheduler names the process that is to blame, whatever rank it has by now.
func TestLastLossDecidesTheExitCodeHoweverRanksWereDealt(t *testing.T) {
	for _, tc := range []struct {
		name       string
		code       int
		table, end string
	}{
		{"failed", 4, "exit 4  ", "failed: x; no worker is left\n"},
		{"told by somebody to stop", 143, "exit 143, got SIGTERM from outside the launcher", "; it got SIGTERM from outside the launcher\n"},
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
				case "worker 1": // rank 0 by now
					p.after(20*time.Second, tc.code)
				case "server 0": // hears of the end sooner than the launcher hears of the scheduler's
					time.Sleep(20*time.Second + 40*time.Millisecond)
					p.exit.Code = 1
				case "scheduler":
					time.Sleep(20*time.Second + 30*time.Millisecond)
					fmt.Fprintln(p.out.Report, failedLine("worker", 0, 4, control.NoWorkerLeft, control.Cause{Kind: control.CauseError, Text: "x"}))
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

// A worker that ended with 0 and that the scheduler has declared lost, because it never left the
// job, has failed.
func TestWorkerThatEndsWithoutLeavingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		f := newFakeScheduler()
		s.elastic(t, f)
		s.cfg.Elastic.Rejoin = 0
		f.unsaid = of(4)
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(30*time.Second, 9)
			case "worker 1":
				p.after(5*time.Second, 0)
			case "scheduler":
				time.Sleep(30*time.Second + 50*time.Millisecond)
				fmt.Fprintln(p.out.Report, failedLine("worker", 0, 3, control.NoWorkerLeft, control.Cause{Kind: control.CauseExit, Exit: 9}))
				p.exit.Code = 1
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
					fmt.Fprintln(p.out.Report, failedLine(lost[:6], 0, map[string]uint32{"server": 2, "worker": 3}[lost[:6]], control.NoBackup, control.Cause{Kind: control.CauseError, Text: "x"}))
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

// The scheduler says when too few workers are left; the exit code is that of the worker whose loss
// was too much.
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
				fmt.Fprintln(p.out.Report, failedLine("worker", 1, 4, control.TooFewWorkers, control.Cause{Kind: control.CauseError, Text: "connection closed"}))
				p.exit.Code = 1
			default:
				p.after(forEver, 0)
			}
		})
		if err != nil || res.Code != 3 {
			t.Errorf("Run: code %d, %v, want 3", res.Code, err)
		}
		if want := "launch: the job failed: worker 1 on localhost failed: connection closed; 1 left, want at least 2 workers\n"; !strings.HasSuffix(s.out.String(), want) {
			t.Errorf("the output does not end in %q:\n%s", want, s.out.String())
		}
	})
}

// A worker that was started again is waited for to the end of its work, also behind the end of the
// others; one that has not joined when the scheduler has ended is not.
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
			case "worker 2": // has not joined yet
				p.after(time.Second, 9)
			case "worker 3": // joins, and has more to do than worker 0
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
		f.stuck = func(control.ObservedProcess) bool { return true }
		begin := time.Now()
		var ends time.Duration
		res, err := s.run(t, func(p *proc) {
			switch p.name {
			case "worker 0":
				p.after(60*time.Second, 0)
			case "worker 1":
				p.after(25*time.Second, 9)
			case "worker 2":
				p.after(forEver, 0)
				ends = time.Since(begin)
			case "scheduler", "server 0":
				p.after(30*time.Second, 0)
			default:
				t.Errorf("%s was started", p.name)
			}
		})
		if err != nil || res.Code != 0 || ends != 30*time.Second+unadmittedEndTime || time.Since(begin) != time.Minute {
			t.Errorf("Run: code %d, %v, after %s, worker 2 was ended after %s; want 0 after a minute, %s\n%s", res.Code, err, time.Since(begin), ends, 30*time.Second+unadmittedEndTime, s.out.String())
		}
	})
}

// When what starts processes on the launching machine is gone, all of a local job is, and nothing
// is started again.
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
