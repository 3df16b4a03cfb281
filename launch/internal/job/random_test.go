package job

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// turn lets one thing happen.
func (w *world) turn() {
	switch k := w.rng.IntN(100); {
	case k < 50 && len(w.due) > 0:
		i := w.rng.IntN(len(w.due))
		e := w.due[i]
		w.due = slices.Delete(w.due, i, i+1)
		if x := e(); x != nil && !w.over {
			w.step(x)
		}
	case k < 55 && len(w.processes) > 0 && w.chance(1): // a process ends
		numbers := w.numbers()
		if e := w.ends(numbers[w.rng.IntN(len(numbers))]); e != nil {
			w.step(e)
		}
	case k == 55 && len(w.machines) > 0 && w.chance(1):
		ids := sortedKeys(w.machines)
		id := ids[w.rng.IntN(len(ids))]
		w.lost[id] = true
		w.step(machineLost{id})
		for _, number := range w.numbers() {
			if p := w.processes[number]; p.machine == id && !p.end && !p.starting {
				p.end, w.endComing = true, number
				w.step(ended{process: number, exit: process.Exit{Code: 255, Err: "connection lost", Lost: true, Elapsed: w.s.now.Sub(p.begun)}})
			}
		}
	case k < 62:
		w.nodes()
	case k == 62:
		h := hosts.Host{Name: fmt.Sprint("d", w.rng.IntN(6))}
		w.step(edited{hostworker.Change{Added: []hosts.Host{h}}})
	case k == 63 && w.rng.IntN(10) == 0:
		w.step(signalled{[]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[w.rng.IntN(2)]})
	case k == 64 && w.rng.IntN(20) == 0:
		w.step(cancelled{errors.New("context canceled")})
	case k == 65:
		w.reports()
	case k == 68 && w.rng.IntN(4) == 0:
		w.step(signalled{syscall.SIGUSR1})
	case k == 69:
		w.notice()
	default:
		w.pass(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
	}
}

// nodes lets nodes or people do something at the scheduler.
func (w *world) nodes() {
	m, now := w.s.member, w.s.now
	host := fmt.Sprint("d", w.rng.IntN(6))
	if !w.core.set.Remote {
		host = "localhost"
	}
	process := uint32(0)
	if numbers := w.numbers(); len(numbers) > 0 {
		process = numbers[w.rng.IntN(len(numbers))]
	}
	p := w.processes[process]
	switch k := w.rng.IntN(20); {
	case k < 10:
		for _, process := range w.numbers() { // all that run register, sooner or later
			if p := w.processes[process]; !p.starting && !p.end && w.rng.IntN(3) > 0 {
				w.register(process)
			}
		}
	case k < 13:
		m.ready(now, process)
	case k < 15:
		m.arrive(now)
	case k == 15 && p != nil && w.chance(2):
		m.leave(now, process, []string{"", "x"}[w.rng.IntN(2)])
	case k == 16:
		m.people(now, control.Request{Op: control.OpAdd, Host: host, Slots: w.rng.IntN(3)})
	case k == 17:
		m.people(now, control.Request{Op: control.OpRemove, Host: host})
	case k == 18 && w.rng.IntN(2) == 0:
		m.people(now, control.Request{Op: control.OpAddServer})
	case k == 18:
		m.people(now, control.Request{Op: control.OpRemoveServer, Rank: w.rng.IntN(4)})
	default:
		q := control.Request{Op: control.OpScale, Workers: 1 + w.rng.IntN(6)}
		if w.rng.IntN(3) == 0 {
			q.Workers, q.Placement = 0, []control.WorkersOnHost{{Host: host, Workers: 1 + w.rng.IntN(2)}}
		}
		m.people(now, q)
	}
	w.schedulerSaid()
}

// register lets the node of a process register.
func (w *world) register(process uint32) {
	if n := findProcess(w.core, process); n != nil && w.s.member.nodes[process] == 0 && (n.Role == roleWorker || n.Role == roleServer) {
		w.s.registers(process)
	}
}

// schedulerSaid lets the scheduler report what it has decided.
func (w *world) schedulerSaid() {
	m := w.s.member
	w.s.member.notes = nil
	report := func(r control.Report) {
		w.owe(func() event {
			if n := w.core.procs.scheduler(); n != nil {
				return reported{n.process, r}
			}
			return nil
		})
	}
	phase, _ := m.core.Phase()
	if phase == wire.PhaseRunning && !w.ran {
		w.ran = true
		report(control.Report{Running: true})
	}
	if f := m.core.Failure(); f != nil && !w.failed {
		w.failed = true
		report(control.Report{Failed: f})
	}
	if why, limit := m.core.Stopping(); why != "" && !w.s.stops {
		w.s.stops = true
		report(control.Report{Stopping: &control.Stopping{Reason: why, LimitMillis: limit.Milliseconds()}})
	}
}

// notice lets a host be taken away, or stay after all.
func (w *world) notice() {
	ids := sortedKeys(w.machines)
	if len(ids) == 0 || !w.chance(1) {
		return
	}
	n := agent.Notice{Code: []string{agent.NoticePreempted, agent.NoticeTerminated, agent.NoticeAtRisk}[w.rng.IntN(3)], Text: "x",
		Left: time.Duration(w.rng.IntN(60)) * time.Second, Withdrawn: w.rng.IntN(4) == 0}
	w.step(noticed{ids[w.rng.IntN(len(ids))], n})
}

func (w *world) reports() {
	p := control.Presence{Role: control.Worker, Process: uint32(w.rng.IntN(8))}
	r := control.Report{Present: &p}
	switch w.rng.IntN(6) {
	case 5:
		if !w.core.checkpoint.asked {
			return
		}
		r = control.Report{Stopped: &control.Stopped{Steps: uint64(w.rng.IntN(2)), Reason: "x"}}
	case 0:
		r = control.Report{Absent: &p}
	case 1:
		f := control.Failure{Code: control.NodeLost, Role: control.Worker, Host: "d1", Process: p.Process, Cause: control.Cause{Kind: control.CauseExit, Exit: 1}}
		r = control.Report{Failed: &f}
	}
	w.step(reported{1, r})
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	until := w.s.now.Add(d)
	for !w.over {
		next := w.core.next()
		if m := w.s.member.core.Next(); !w.s.member.away && !m.IsZero() && (next.IsZero() || m.Before(next)) {
			next = m
		}
		if next.IsZero() || next.After(until) {
			break
		}
		if next.After(w.s.now) {
			w.s.now = next
		}
		w.s.member.pass(w.s.now)
		w.schedulerSaid()
		w.step(nil)
	}
	w.s.now = until
	w.step(nil)
}

// checkResult holds the rules of the exit code.
func (w *world) checkResult() {
	r := w.core.result()
	x := r.Report(w.core.start.err, r.Code)
	text, err := control.EncodeResult(x)
	if err != nil {
		w.fatal("%v", err)
	}
	w.did.Write(text)
	fmt.Fprintln(w.did, r.text, endTable(&r))
	switch code := r.Code; {
	case w.core.ending.interrupt.signal != 0:
		if code != 128+int(w.core.ending.interrupt.signal) || x.Failure.Code != control.Interrupted {
			w.fatal("exit code %d, %+v after signal %d", code, x.Failure, w.core.ending.interrupt.signal)
		}
	case w.core.checkpoint.complete():
		if code != control.ExitCheckpointed || x.Failure == nil || x.Failure.Code != control.Checkpointed || x.Culprit != nil {
			w.fatal("exit code %d, %+v with a checkpoint", code, x.Failure)
		}
	case code == control.ExitCheckpointed:
		w.fatal("exit code %d without a checkpoint, %+v", code, x.Failure)
	case x.Phase == control.Starting:
		if code != 1 || x.Failure == nil {
			w.fatal("exit code %d of a job that was not started, %v", code, x.Failure)
		}
	case x.Culprit != nil:
		if n := findProcess(w.core, x.Culprit.Process); code == 0 || code != n.Exit.Status() {
			w.fatal("exit code %d, and process %d is to blame: %v", code, x.Culprit.Process, n.Exit)
		}
		fallthrough
	default:
		if (code == 0) != (x.Failure == nil) && !x.Cancelled {
			w.fatal("exit code %d, failure %v", code, x.Failure)
		}
		failed := slices.ContainsFunc(x.Processes, func(p control.ProcessEnd) bool {
			return p.Role == control.Worker && p.Fate == control.FateEnded && p.Cause.Kind == control.CauseSignal
		})
		if code == 0 && failed {
			w.fatal("exit code 0, and a worker failed by itself: %+v", x.Processes)
		}
	}
}

// Whatever happens, a job ends, leaves nothing behind, starts nothing once it is being stopped, and
// has the exit code that it should.
func TestRandomJobsKeepTheRules(t *testing.T) {
	ends := make(map[string]int)
	from, to := int64(0), int64(*seeds)
	if *oneSeed >= 0 {
		from, to = *oneSeed, *oneSeed+1
	}
	var all strings.Builder
	for seed := from; seed < to; seed++ {
		w := newWorld(t, seed)
		for range 50 + w.rng.IntN(1000) {
			if !w.over {
				w.turn()
			}
		}
		// Then all that is owed comes, and processes end well. Some jobs are told to end,
		// the others end by themselves.
		w.calm = true
		told := w.rng.IntN(2) == 0
		if told && !w.over {
			w.step(signalled{syscall.SIGTERM})
		}
		for limit := w.s.now.Add(time.Hour); !w.over; {
			for len(w.due) > 0 && !w.over {
				e := w.due[0]
				w.due = w.due[1:]
				if x := e(); x != nil && !w.over {
					w.step(x)
				}
			}
			if w.over {
				break
			}
			if w.s.now.After(limit) {
				w.fatal("the job has not ended an hour later: stage %d, %d live", w.core.stage, w.core.procs.alive())
			}
			if !told {
				for _, number := range w.numbers() {
					if e := w.ends(number); e != nil && !w.over {
						w.step(e)
					}
				}
			}
			w.pass(10 * time.Second)
		}
		r := w.core.result()
		for _, e := range []event{nil, signalled{syscall.SIGINT}, cancelled{errors.New("x")}, allClosed{}, reported{1, control.Report{Running: true}}} {
			w.s.now = w.s.now.Add(time.Hour)
			w.step(e)
		}
		ends[fmt.Sprintf("%s %v", r.phase, r.Code == 0)]++
		fmt.Fprintf(&all, "%d %x\n", seed, w.did.Sum(nil))
	}
	if *digests != "" {
		if err := os.WriteFile(*digests, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d jobs: %v", to-from, ends)
	if *oneSeed < 0 && (ends["running true"] == 0 || ends["running false"] == 0 || ends["starting false"] == 0 || ends["forming false"] == 0) {
		t.Errorf("%v: want some of each", ends)
	}
}
