package job

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
)

var (
	seeds   = flag.Int("seeds", 300, "how many random jobs to run")
	oneSeed = flag.Int64("seed", -1, "run this random job alone")
	verbose = flag.Bool("events", false, "print the events and actions of random jobs")
	digests = flag.String("digests", "", "write a digest of the events and actions of each random job to this file")
)

// A world is what a core acts on: machines, processes and a scheduler that do what they like. It
// holds the core to its rules.
type world struct {
	t    *testing.T
	seed int64
	rng  *rand.Rand
	s    script
	core *core

	due         []func() event // answers that are owed, in any order
	machines    map[int]bool   // those that are connected
	lost        map[int]bool   // those whose connection is lost
	processes   map[uint32]*worldProcess
	asked       map[int]bool
	cancelled   map[int]bool // requests
	ran, failed bool         // the scheduler has said so
	connecting  map[int]bool
	closedAll   bool
	coming      int    // the answer to this connection comes next
	answering   int    // the answer to this request
	startComing uint32 // this one was started, or could not be, and that comes next
	endComing   uint32 // the end of this one
	over        bool
	gentle      bool // little goes wrong
	calm        bool // nothing happens by itself any more
	steps       int
	did         hash.Hash // of all that happened
}

type worldProcess struct {
	role          string
	machine       int
	begun         time.Time
	starting, end bool
	term, kill    bool // it got the signal
	late          bool // it was there when the job was being stopped
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\nreplay: go test ./launch/internal/job -run RandomJobs -seed %d -events -v", w.seed, fmt.Sprintf(format, args...), w.seed)
}

func newWorld(t *testing.T, seed int64) *world {
	rng := rand.New(rand.NewPCG(uint64(seed), 11))
	w := &world{t: t, seed: seed, rng: rng, did: sha256.New(), machines: make(map[int]bool), lost: make(map[int]bool), processes: make(map[uint32]*worldProcess), asked: make(map[int]bool), cancelled: make(map[int]bool), connecting: make(map[int]bool)}
	a := arguments{"workers": fmt.Sprint(1 + rng.IntN(4)), "servers": fmt.Sprint(1 + rng.IntN(3)), "rejoin": fmt.Sprint(rng.IntN(3)), "backups": fmt.Sprint(rng.IntN(2)), "join": "20s"}
	for _, name := range []string{"elastic", "state", "prepare", "gpus"} {
		if rng.IntN(2) == 0 {
			a[name] = "1"
		}
	}
	if rng.IntN(3) > 0 {
		a["hosts"] = "d1,d2,d3"
	}
	if a["elastic"] != "" && rng.IntN(2) == 0 {
		a["adapt"], a["max"] = "1", "5"
	}
	w.gentle = rng.IntN(2) == 0
	a["loss"] = []string{"", "", "shrink", "wait", "fail"}[rng.IntN(5)]
	w.s.now = time.Unix(1000, 0)
	set := scriptSettings(a)
	w.s.core, w.s.member = newCore(set, w.s.now), newMembership(set, w.s.now)
	w.core = w.s.core
	w.log("new %v", a)
	w.act(starting, w.core.out.take())
	return w
}

func (w *world) log(format string, args ...any) {
	if *verbose {
		w.t.Logf("%v "+format, append([]any{w.s.now.Unix()}, args...)...)
	}
}

// step lets something happen.
func (w *world) step(e event) {
	if w.steps++; w.steps > 100_000 {
		w.fatal("the job does not end")
	}
	if e != nil {
		w.log("<- %T %+v", e, e)
	}
	fmt.Fprintf(w.did, "%v %T\n", w.s.now, e)
	before := w.core.stage
	w.act(before, w.core.step(e, w.s.now))
	if next := w.core.next(); !next.IsZero() && next.Before(w.s.now) {
		w.fatal("at %v the core wants to be stepped at %v", w.s.now, next)
	}
	w.checkFlags()
}

// checkFlags holds what the comment of Node says of its flags.
func (w *world) checkFlags() {
	p := &w.core.procs
	for _, n := range slices.Concat(p.nodes, p.unstarted, p.arrivals, slices.Collect(maps.Values(p.launching))) {
		inLife := n.Role == roleServer || n.Role == roleWorker
		switch {
		case n.awaited && !n.ended:
			w.fatal("%s is awaited and has not ended", n.Name())
		case n.arriving && (n.ended || n.PID != 0):
			w.fatal("%s is arriving, PID %d, ended %v", n.Name(), n.PID, n.ended)
		case n.joining && n.early:
			w.fatal("%s is both early and joining", n.Name())
		case n.lossTold && !n.lost:
			w.fatal("people were told of the loss of %s, which is not lost", n.Name())
		case n.member && n.Role != roleWorker, n.member && n.joining:
			w.fatal("%s is a member, joining %v", n.Name(), n.joining)
		case !inLife && (n.arriving || n.joining || n.early || n.leaving || n.awaited || n.lost):
			w.fatal("%s: %+v", n.Name(), n)
		}
	}
}

// owe lets an event come later.
func (w *world) owe(e func() event) { w.due = append(w.due, e) }

// act does what the core wants, and checks that it may.
func (w *world) act(before stage, actions []action) {
	for _, a := range actions {
		text := w.s.text(a)
		if text != "" {
			w.log("-> %s", text)
		}
		if x, ok := a.(ask); ok && x.Op == control.OpReport {
			body, err := x.Encode()
			if text = string(body); err != nil {
				w.fatal("%v", err)
			}
		}
		fmt.Fprintf(w.did, "%T %s\n", a, text)
		if w.over {
			w.fatal("after the end: %T %+v", a, a)
		}
		switch a := a.(type) {
		case connect, checkHost:
			id := 0
			if x, ok := a.(connect); ok {
				id = x.id
			} else {
				id = a.(checkHost).id
			}
			if before > running || w.connecting[id] || w.machines[id] {
				w.fatal("%T %+v in stage %d", a, a, before)
			}
			w.connecting[id] = true
			_, remote := a.(connect)
			w.owe(func() event {
				delete(w.connecting, id)
				w.coming = id
				if w.chance(10) {
					return connected{id: id, err: errors.New("launch: no route to host")}
				}
				if remote {
					w.machines[id] = true
				}
				if x, ok := a.(connect); ok && x.host == nil {
					return connected{id: id, address: "127.0.0.1"}
				}
				return connected{id: id, address: fmt.Sprintf("10.0.0.%d", 1+id%200), launcher: "10.0.1.1"}
			})
		case cancelCall:
			if !w.connecting[a.id] && a.id != w.coming {
				w.fatal("%+v is not under way", a)
			}
		case cancelAsk:
			if !w.asked[a.id] && a.id != w.answering {
				w.fatal("%+v is not under way", a)
			}
			w.cancelled[a.id] = true
			w.owe(func() event {
				delete(w.asked, a.id)
				return answered{id: a.id, err: errors.New(a.why)}
			})
		case closeMachine:
			if !w.machines[a.machine] || w.closedAll {
				w.fatal("%+v is not connected", a)
			}
			for number, p := range w.processes {
				if p.machine == a.machine && !p.end && !(p.starting && w.lost[a.machine]) && !(p.role == rolePrepare && p.kill) {
					w.fatal("%+v has process %d", a, number)
				}
			}
			delete(w.machines, a.machine)
			w.owe(func() event { return machineClosed{machine: a.machine} })
		case chooseAddress:
			w.owe(func() event {
				if w.chance(30) {
					return addressChosen{err: errors.New("launch: no address")}
				}
				return addressChosen{address: "10.0.1.1"}
			})
		case announce:
			w.owe(func() event {
				if w.chance(30) {
					return announced{errors.New("launch: disk full")}
				}
				return announced{}
			})
		case startProcess:
			if before > running || !w.machines[a.machine] || w.processes[a.process] != nil {
				w.fatal("%s in stage %d", w.s.text(a), before)
			}
			if w.core.machines.byID[a.machine].notice != nil && a.role != roleScheduler && w.core.stage > starting {
				w.fatal("%s on a host that is being taken away", w.s.text(a))
			}
			p := &worldProcess{role: a.role, machine: a.machine, starting: true, begun: w.s.now}
			w.processes[a.process] = p
			w.owe(func() event { return w.processStarts(a, p) })
		case cancelStart:
			if p := w.processes[a.process]; p == nil || !p.starting && a.process != w.startComing {
				w.fatal("%+v is not under way", a)
			}
		case signalProcess:
			p := w.processes[a.process]
			if p == nil || p.starting || p.end && a.process != w.endComing {
				w.fatal("signal %s for process %d: %+v", a.signal, a.process, p)
			}
			w.signalled(a, p)
		case rename:
			if p := w.processes[a.process]; p == nil || p.end || p.role != roleWorker {
				w.fatal("%+v: %+v", a, p)
			}
		case ask:
			if w.asked[a.id] || a.id != 0 && a.Op != control.OpStop && before > running {
				w.fatal("%s in stage %d", w.s.text(a), before)
			}
			if a.id != 0 {
				w.asked[a.id] = true
				w.owe(func() event { w.answer(a); return nil })
			}
		case closeAll:
			w.closeAll(before)
		case end:
			w.over = true
			w.checkResult()
		}
	}
}

// chance is true now and then: more seldom in a job that is gentle, or is starting.
func (w *world) chance(oneIn int) bool {
	if w.gentle || w.core.stage == starting {
		oneIn *= 20
	}
	return !w.calm && w.rng.IntN(oneIn) == 0
}

func (w *world) processStarts(a startProcess, p *worldProcess) event {
	p.starting, w.startComing = false, a.process
	if w.chance(15) || !w.machines[a.machine] || w.lost[a.machine] {
		p.end = true
		return startFailed{a.process, errors.New("launch: no such program")}
	}
	p.late = w.core.stage > running
	if a.role == roleScheduler {
		w.owe(func() event {
			switch {
			case p.end:
				return nil
			case w.core.stage == starting:
				return listening{a.process, "10.0.1.1:4711"}
			}
			if w.s.member.away {
				w.s.member.restart(w.s.now)
				w.s.member.back()
			}
			return listening{a.process, w.core.scheduler.address + ":" + w.core.scheduler.port}
		})
	}
	if a.role == rolePrepare {
		w.owe(func() event { return w.ends(a.process) })
	}
	return started{a.process, 100}
}

// ends is the end of a process.
func (w *world) ends(number uint32) event {
	p := w.processes[number]
	if p.end || p.starting {
		return nil
	}
	p.end, w.endComing = true, number
	if p.role == roleScheduler {
		w.s.member.away = true
	}
	x := process.Exit{Elapsed: w.s.now.Sub(p.begun)}
	switch {
	case p.kill:
		x.Signal = syscall.SIGKILL
	case p.term && w.rng.IntN(2) == 0:
		x.Signal = syscall.SIGTERM
	case w.lost[p.machine]:
		x.Code, x.Err, x.Lost = 255, "connection lost", true
	case !w.calm:
		x.Code = []int{0, 0, 1, 3, 143}[w.rng.IntN(5)]
		if w.chance(4) {
			x.Code, x.Signal = 0, syscall.SIGKILL
		}
	}
	return ended{process: number, exit: x, last: "bye"}
}

// signalled is a process that gets a signal: it may ignore SIGTERM.
func (w *world) signalled(a signalProcess, p *worldProcess) {
	if a.signal == syscall.SIGKILL {
		p.kill = true
	} else {
		p.term = true
		if w.chance(4) {
			return
		}
	}
	w.owe(func() event { return w.ends(a.process) })
}

// answer lets the scheduler answer a request, at once or later.
func (w *world) answer(a ask) {
	reply := func(e answered) {
		w.owe(func() event {
			if !w.asked[a.id] || w.cancelled[a.id] {
				return nil
			}
			delete(w.asked, a.id)
			w.answering = a.id
			return e
		})
	}
	if w.cancelled[a.id] {
		return
	}
	if a.Op != control.OpWanted && a.Op != control.OpReport && w.chance(5) {
		reply(answered{id: a.id, err: fmt.Errorf("%w: no", control.ErrRefused)})
		return
	}
	w.s.member.control(w.s.now, a.Request, func(raw []byte, err error) {
		e := answered{id: a.id, err: err}
		if into := control.Answer(&e.done); err == nil {
			if a.Op == control.OpWanted {
				into = &e.wanted
			}
			e.err = control.DecodeAnswer(raw, into)
		}
		if errors.Is(e.err, control.ErrMalformed) || e.err != nil && !errors.Is(e.err, control.ErrRefused) && err == nil {
			w.fatal("%v: %s", e.err, raw)
		}
		reply(e)
	})
	w.schedulerSaid()
}

// closeAll: whoever lives then has been killed, unless the job never ran, or the process came when
// others had been.
func (w *world) closeAll(before stage) {
	if w.closedAll {
		w.fatal("all is closed twice")
	}
	w.closedAll = true
	for number, p := range w.processes {
		if before > starting && !p.end && !p.starting && !p.kill && !p.late {
			w.fatal("process %d lives when all is closed, and has not been killed", number)
		}
	}
	w.owe(func() event {
		for _, number := range w.numbers() {
			if e := w.ends(number); e != nil && w.rng.IntN(2) == 0 {
				w.step(e)
			}
		}
		return allClosed{}
	})
}

func (w *world) numbers() []uint32 { return slices.Sorted(maps.Keys(w.processes)) }
