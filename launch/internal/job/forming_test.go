package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A formingJob is complete, and trains until then, some seconds after all its processes are there
// at once.
type formingJob struct {
	setup
	f     *fakeScheduler
	begin time.Time
	log   bytes.Buffer

	mu      sync.Mutex // guards started and living: processes of several machines
	started []string   // process, and after how long
	living  map[string]bool
	want    int           // so many servers and workers make it complete
	done    chan struct{} // closed when the job is complete
}

func newFormingJob(t *testing.T) *formingJob {
	j := &formingJob{f: newFakeScheduler(), begin: time.Now(), living: map[string]bool{}, want: 3, done: make(chan struct{})}
	j.elastic(t, j.f)
	j.f.forming = true
	j.forming, j.logger = true, slog.New(slog.NewTextHandler(&j.log, nil))
	return j
}

// script is what the processes do: their part until the job has ended, unless die does something
// else at the n-th start of one, n from 1.
func (j *formingJob) script(die func(p *proc, n int) bool) func(p *proc) {
	return func(p *proc) {
		j.mu.Lock()
		j.started = append(j.started, fmt.Sprintf("%s %s", p.name, time.Since(j.begin)))
		n := 0
		for _, s := range j.started {
			if strings.HasPrefix(s, p.name+" ") {
				n++
			}
		}
		j.mu.Unlock()
		if p.name == "scheduler" {
			select {
			case <-time.After(time.Second):
			case s := <-p.signals:
				p.exit.Signal = s
				return
			}
			if die(p, n) {
				return
			}
			io.WriteString(p.out.Report, "127.0.0.1:4711\n")
			select {
			case <-j.done:
				io.WriteString(p.out.Report, runningLine+"\n")
				p.after(time.Minute+time.Second, 0)
			case s := <-p.signals:
				p.exit.Signal = s
			}
			return
		}
		if die(p, n) {
			return
		}
		j.mu.Lock()
		if j.living[p.name] = true; len(j.living) == j.want {
			time.AfterFunc(time.Second, func() { j.f.complete(); close(j.done) })
		}
		j.mu.Unlock()
		select {
		case <-j.done:
			p.after(time.Minute, 0)
		case s := <-p.signals:
			p.exit.Signal = s
		}
	}
}

// killed ends a process after a time as SIGKILL does.
func (p *proc) killed(after time.Duration) bool {
	if p.after(after, 0); p.exit.Signal == 0 {
		p.exit.Signal = syscall.SIGKILL
	}
	return true
}

// Whatever dies before the job is complete is started again as what it was, for as often as
// --rejoin says.
func TestProcessesThatDieBeforeTheJobIsCompleteAreStartedAgain(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(e *Elastic)
		die     func(p *proc, n int) bool
		code    int
		started []string // of those that died
		told    []uint32 // the processes that the scheduler was told of
		want    string   // in the log or the output
	}{
		{"a worker", nil, func(p *proc, n int) bool { return p.name == "worker 1" && n == 1 && p.killed(3*time.Second) }, 0,
			[]string{"worker 1 1s", "worker 1 5s"}, []uint32{4},
			"worker 1 on localhost ended before the job was complete: signal 9 (killed); starting it again in 1s (attempt 1 of 2)"},
		{"a worker that ends by itself", nil, func(p *proc, n int) bool {
			if p.name == "worker 1" && n == 1 {
				p.after(3*time.Second, 3)
			}
			return p.name == "worker 1" && n == 1
		}, 0, []string{"worker 1 1s", "worker 1 5s"}, []uint32{4}, "exit 3, started again"},
		{"all workers at once", nil, func(p *proc, n int) bool { return strings.HasPrefix(p.name, "worker") && n < 3 && p.killed(0) }, 0,
			[]string{"worker 0 1s", "worker 0 2s", "worker 0 4s", "worker 1 1s", "worker 1 2s", "worker 1 4s"}, nil, "(attempt 2 of 2)"},
		{"a worker, again and again", nil, func(p *proc, n int) bool { return p.name == "worker 1" && p.killed(0) }, 137,
			[]string{"worker 1 1s", "worker 1 2s", "worker 1 4s"}, nil,
			"launch: worker 1 on localhost failed: signal 9 (killed), before the job was complete, 3 times in a row; if nobody killed it, "},
		{"a worker, again and again, while another one ended well and joined nobody", nil, func(p *proc, n int) bool {
			if p.env["DMLC_ROLE"] == "worker" {
				p.after(3500*time.Millisecond, 0)
			}
			if p.name == "worker 1" {
				p.exit.Code = 3
			}
			return p.env["DMLC_ROLE"] == "worker"
		}, 3, []string{"worker 1 11s", "worker 1 1s", "worker 1 5.5s"}, nil, "worker 1 on localhost failed: exit 3, before the job was complete, 3 times in a row"},
		{"a worker once, while another one ended well, and neither joins", nil, func(p *proc, n int) bool {
			if p.env["DMLC_ROLE"] == "worker" {
				p.after(3500*time.Millisecond, 0)
			}
			if p.name == "worker 1" && n == 1 {
				p.exit.Code = 3
			}
			return p.env["DMLC_ROLE"] == "worker"
		}, 0, []string{"worker 1 1s", "worker 1 5.5s"}, nil, "exit 3, started again"},
		{"a worker, where none is started again", func(e *Elastic) { e.Rejoin = 0 }, func(p *proc, n int) bool { return p.name == "worker 1" && p.killed(0) }, 137,
			[]string{"worker 1 1s"}, nil, "launch: worker 1 on localhost failed: signal 9 (killed), before the job was complete; with --rejoin 1 or more it is started again"},
		{"a worker of a job that no loss is for", func(e *Elastic) { e.OnWorkerLoss = LossFail }, func(p *proc, n int) bool { return p.name == "worker 1" && p.killed(0) }, 137,
			[]string{"worker 1 1s"}, nil, "launch: worker 1 on localhost failed: signal 9 (killed), before the job was complete"},
		{"a worker of a job that waits for another", func(e *Elastic) { e.OnWorkerLoss = LossWait }, func(p *proc, n int) bool { return p.name == "worker 1" && n == 1 && p.killed(0) }, 0,
			[]string{"worker 1 1s", "worker 1 2s"}, []uint32{4}, ""},
		{"a worker that somebody told to end", nil, func(p *proc, n int) bool { p.exit.Code = 143; return p.name == "worker 1" }, 143,
			[]string{"worker 1 1s"}, nil, "got SIGTERM from outside the launcher"},
		{"a server", nil, func(p *proc, n int) bool { return p.name == "server 0" && n == 1 && p.killed(time.Second) }, 0,
			[]string{"server 0 1s", "server 0 3s"}, []uint32{2}, "server 0 on localhost ended before the job was complete: signal 9 (killed); starting it again in 1s (attempt 1 of 2)"},
		{"a server that has backups", func(e *Elastic) { e.Backups, e.OnWorkerLoss, e.Rejoin = 1, LossFail, 0 }, func(p *proc, n int) bool { return p.name == "server 0" && n == 1 && p.killed(time.Second) }, 0,
			[]string{"server 0 1s", "server 0 3s"}, []uint32{2}, "(attempt 1 of 8)"},
		{"the scheduler, before it listens", nil, func(p *proc, n int) bool { return p.name == "scheduler" && n < 4 && p.killed(0) }, 0,
			[]string{"scheduler 0s", "scheduler 1s", "scheduler 2.25s", "scheduler 3.75s"}, nil, "scheduler on localhost ended before it listened: signal 9 (killed); starting it again"},
		{"the scheduler and a worker", nil, func(p *proc, n int) bool {
			switch {
			case p.name == "scheduler" && n == 1:
				io.WriteString(p.out.Report, "127.0.0.1:4711\n")
				return p.killed(2 * time.Second)
			case p.name == "worker 1" && n == 1:
				return p.killed(2 * time.Second)
			}
			return false
		}, 0, []string{"scheduler 0s", "scheduler 3s", "worker 1 1s", "worker 1 4s"}, []uint32{4}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newFormingJob(t)
				if tc.change != nil {
					tc.change(&j.cfg.Elastic)
				}
				res, err := j.run(t, j.script(tc.die))
				if err != nil || res.Code != tc.code {
					t.Errorf("Run: code %d, %v, want %d\n%s%s", res.Code, err, tc.code, &j.log, &j.out)
				}
				got := slices.DeleteFunc(slices.Clone(j.started), func(s string) bool {
					return !slices.ContainsFunc(tc.started, func(d string) bool { return d[:8] == s[:8] })
				})
				if slices.Sort(got); !slices.Equal(got, tc.started) {
					t.Errorf("started %q, want %q", got, tc.started)
				}
				if tc.told != nil && !slices.Equal(j.f.lost(), tc.told) {
					t.Errorf("the scheduler was told of processes %d, want %d", j.f.lost(), tc.told)
				}
				if text := j.log.String() + j.out.String(); !strings.Contains(text, tc.want) {
					t.Errorf("the output has no %q:\n%s", tc.want, text)
				}
				for name, p := range j.local.procs {
					if strings.Count(fmt.Sprint(j.started), name+" ") <= 1 {
						continue
					}
					if name == "scheduler" {
						if got, want := p.env["PARAGON_HOSTS"], "server/0/localhost,worker/0/localhost,worker/1/localhost"; got != want {
							t.Errorf("the scheduler has PARAGON_HOSTS=%s, want %s", got, want)
						}
					} else if p.env["PARAGON_JOIN"] != "1" || p.env["PARAGON_RANK"] != name[len(name)-1:] {
						t.Errorf("%s has PARAGON_JOIN=%s, PARAGON_RANK=%s", name, p.env["PARAGON_JOIN"], p.env["PARAGON_RANK"])
					}
				}
			})
		})
	}
}

// The launcher hears last that the job is complete: a worker that ends just before that was in it,
// and another one joins.
func TestWorkerThatDiesAsTheJobBecomesCompleteIsReplacedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newFormingJob(t)
		begin := time.Now()
		j.f.forming = false
		j.f.later(4*time.Second, func(m *membership, now time.Time) {
			for process, x := range map[uint32]control.ObservedProcess{2: {Role: roleServer}, 3: {Role: roleWorker}, 4: {Role: roleWorker, Rank: 1}} {
				x.Process = process
				j.f.joining[process] = true
				m.register(now, x, "localhost", false)
			}
		})
		res, err := j.run(t, func(p *proc) {
			j.mu.Lock()
			j.started = append(j.started, p.name)
			j.mu.Unlock()
			switch p.name {
			case "scheduler":
				io.WriteString(p.out.Report, "127.0.0.1:4711\n")
				time.Sleep(5*time.Second + time.Millisecond)
				io.WriteString(p.out.Report, runningLine+"\n")
				p.after(time.Minute, 0)
			case "worker 1":
				p.killed(5 * time.Second)
			default:
				p.after(time.Minute-time.Since(begin), 0)
			}
		})
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0\n%s%s", res.Code, err, &j.log, &j.out)
		}
		slices.Sort(j.started)
		if want := []string{"scheduler", "server 0", "worker 0", "worker 1", "worker 2"}; !slices.Equal(j.started, want) {
			t.Errorf("started %q, want %q", j.started, want)
		}
		if !strings.Contains(j.out.String(), "signal 9 (killed), lost, the job went on") {
			t.Errorf("the table does not say that worker 1 was lost:\n%s", &j.out)
		}
	})
}

// A worker that was started again before the job was complete is no member of it: a later loss on
// its host, of a process that launch did not start, is not its.
func TestALaterLossIsNotThatOfAWorkerThatWasStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newFormingJob(t)
		go func() {
			<-j.done
			time.Sleep(10 * time.Second)
			j.f.do(func(m *membership, now time.Time) {
				m.register(now, control.ObservedProcess{Process: 777, Role: roleWorker}, "localhost", true)
				m.ready(now, 777)
				m.arrive(now)
				m.leave(now, 777, "no heartbeat for 10 s")
			})
		}()
		res, err := j.run(t, j.script(func(p *proc, n int) bool { return p.name == "worker 1" && n == 1 && p.killed(0) }))
		if err != nil || res.Code != 0 || len(j.started) != 5 {
			t.Errorf("Run: code %d, %v, started %q; want 0, and worker 1 twice", res.Code, err, j.started)
		}
	})
}

// While workers are about to be started again, be it that their host takes long to be reached, the
// job is not given up for want of workers.
func TestJobWaitsForWorkersThatAreStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newFormingJob(t)
		dialled := false // of d2
		script := j.script(func(p *proc, n int) bool {
			if n == 1 && p.env["DMLC_ROLE"] == "worker" {
				p.exit.Code, p.exit.Err = 255, "connection to d2 lost"
				return true
			}
			return false
		})
		j.cfg.Dial = func(_ context.Context, h hosts.Host) (Machine, error) {
			m := &fake{address: "127.0.0.1", launcher: "127.0.0.1", forming: true, script: script, procs: map[string]*proc{}, log: new([]string), gone: make(chan struct{})}
			switch {
			case h.Name == "d1":
			case dialled:
				time.Sleep(3 * noWorkerTime)
			default:
				dialled = true
				time.AfterFunc(time.Second, func() { close(m.gone) })
			}
			return m, nil
		}
		j.place, j.servers, j.want = []hosts.Host{{Name: "d2"}}, []hosts.Host{{Name: "d1"}}, 2
		res, err := j.run(t, script)
		if err != nil || res.Code != 0 {
			t.Errorf("Run: code %d, %v, want 0\n%s%s", res.Code, err, &j.log, &j.out)
		}
	})
}

// A scheduler that ends by itself before it listens says why, and is not started again.
func TestSchedulerThatCannotListenEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newFormingJob(t)
		res, err := j.run(t, j.script(func(p *proc, n int) bool { p.exit.Code = 3; return p.name == "scheduler" }))
		if want := "launch: scheduler on localhost ended before it listened: exit 3"; !errors.Is(err, ErrStart) || !strings.HasSuffix(err.Error(), want) || res.Code != 1 {
			t.Errorf("Run: code %d, %v, want 1, %q", res.Code, err, want)
		}
		if len(j.started) != 1 {
			t.Errorf("started %q, want one scheduler", j.started)
		}
	})
}

// A host that is lost before the job is complete, even before its processes are started, is reached
// again.
func TestHostThatIsLostBeforeTheJobIsCompleteComesAgain(t *testing.T) {
	for _, when := range []time.Duration{0, 3 * time.Second} {
		t.Run(fmt.Sprint("after ", when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newFormingJob(t)
				var dialling sync.Mutex
				dials, reached := map[string]int{}, []*fake(nil)
				d2 := hosts.Host{Name: "d2"}
				script := j.script(func(p *proc, n int) bool {
					if p.env["DMLC_NODE_HOST"] == "d2" && n == 1 && when > 0 {
						time.Sleep(when)
						p.exit.Code, p.exit.Err = 255, "connection to d2 lost"
						return true
					}
					return false
				})
				j.cfg.Dial = func(_ context.Context, h hosts.Host) (Machine, error) {
					m := &fake{host: h.Name, address: "127.0.0.1", launcher: "127.0.0.1", forming: true, script: script, procs: map[string]*proc{}, log: new([]string)}
					dialling.Lock()
					defer dialling.Unlock()
					dials[h.Name]++
					reached = append(reached, m)
					if h.Name == "d2" && dials["d2"] == 1 {
						m.gone = make(chan struct{})
						if when == 0 {
							close(m.gone)
							return lostBefore{m}, nil
						}
						time.AfterFunc(time.Second+when-time.Nanosecond, func() { close(m.gone) })
					}
					return m, nil
				}
				j.place, j.want = []hosts.Host{{Name: "d1"}, d2, d2}, 4
				res, err := j.run(t, script)
				if err != nil || res.Code != 0 || dials["d1"] != 1 || dials["d2"] < 2 || dials["d2"] > 3 {
					t.Errorf("Run: code %d, %v, hosts dialled %v; want 0, and d2 again\n%s%s", res.Code, err, dials, &j.log, &j.out)
				}
				for i, m := range reached {
					if !m.shut {
						t.Errorf("connection %d to %s was never closed", i, m.host)
					}
				}
			})
		})
	}
}

// lostBefore is a machine that is gone before anything was started on it.
type lostBefore struct{ *fake }

func (lostBefore) Start(context.Context, process.Spec, process.Output) (process.Handle, error) {
	return nil, errors.New("launch: start worker 1 on d2: connection to the agent lost")
}
