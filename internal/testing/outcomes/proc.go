package outcomes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
)

// A state is how far a process is.
type state int

const (
	starting state = iota
	running
	// dead processes have ended with their host, and the launcher does not know yet.
	dead
	gone
)

// A proc is a process of the job.
type proc struct {
	w      *world
	number uint32
	role   string
	rank   int32
	// host is the name that the job's nodes know.
	host    string
	joins   bool
	machine *machine
	// ordinal says how many of its role were started on its host before.
	ordinal int
	state   state
	begun   time.Time
	chance  *rand.Rand
	// stubborn processes ignore SIGTERM.
	stubborn, told bool
	// frozen processes stand still: what would happen to them is in thawed.
	frozen bool
	thawed []func()
	// node is nil but for workers and servers.
	node *node
}

func (p *proc) String() string { return fmt.Sprintf("%s %s/%d", p.role, p.host, p.ordinal) }

func exitOf(s syscall.Signal) process.Exit { return process.Exit{Signal: s} }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// start starts a process.
func (w *world) start(a Start) {
	m := w.machines[a.Machine]
	h := m.host
	p := &proc{w: w, number: a.Process, role: a.Role, rank: a.Rank, host: a.Host, joins: a.Joins, machine: m, ordinal: h.started[a.Role], begun: w.now}
	h.started[a.Role]++
	p.chance = w.draw("process", p.role, h.name, p.ordinal)
	p.stubborn = p.chance.IntN(12) == 0
	fails := p.seldom(60)
	w.processes = append(w.processes, p)
	w.byNumber[p.number] = p
	w.after(between(p.chance, 5*time.Millisecond, 60*time.Millisecond)+h.slow/4, func() {
		switch {
		case p.state != starting:
		case h.down || m.lost || m.closed:
			p.notStarted(errors.New("launch: connection lost"))
		case fails:
			p.notStarted(errors.New("launch: no such program"))
		default:
			p.state = running
			w.happened("%v starts", p)
			w.step(Started{Process: p.number, PID: 100 + int(p.number)})
			p.run()
		}
	})
}

// seldom is true once in so many times; while the job is being started more seldom, as few jobs
// survive that.
func (p *proc) seldom(times int) bool {
	if !p.joins && p.role != prepare && p.ordinal < 3 {
		times *= 5
	}
	return p.chance.IntN(times) == 0
}

func (p *proc) notStarted(err error) {
	if p.state != starting {
		return
	}
	p.state = gone
	p.w.happened("%v is not started: %v", p, err)
	p.w.forgetProcess(p)
	p.w.step(StartFailed{Process: p.number, Err: err})
}

// run is what a process does that has been started.
func (p *proc) run() {
	switch p.role {
	case scheduler:
		p.w.link.start(p)
	case prepare:
		fails := p.seldom(15)
		p.after(between(p.chance, 100*time.Millisecond, 1500*time.Millisecond), func() {
			if fails {
				p.end(process.Exit{Code: 3})
				return
			}
			p.end(process.Exit{})
		})
	default:
		p.node = &node{p: p}
		p.node.run()
	}
}

// after lets the process do something later, unless it has ended by then. While it stands still it
// does nothing.
func (p *proc) after(d time.Duration, do func()) { p.w.after(d, func() { p.do(do) }) }

// beside is after for what no rest waits for.
func (p *proc) beside(d time.Duration, do func()) { p.w.beside(d, func() { p.do(do) }) }

func (p *proc) do(do func()) {
	switch {
	case p.state != running:
	case p.frozen:
		p.thawed = append(p.thawed, do)
	default:
		do()
	}
}

// freeze lets a process stand still for a time.
func (p *proc) freeze(d time.Duration) {
	p.frozen = true
	p.w.happened("%v stands still", p)
	p.w.after(d, func() {
		if !p.frozen || p.state != running {
			return
		}
		p.frozen = false
		p.w.happened("%v goes on", p)
		all := p.thawed
		p.thawed = nil
		if p.role == scheduler {
			p.w.link.awake(p)
		}
		for _, do := range all {
			p.w.after(0, func() { p.do(do) })
		}
	})
}

// end is the end of a process, which the launcher hears of.
func (p *proc) end(x process.Exit) {
	switch p.state {
	case starting:
		p.notStarted(errors.New("launch: connection closed"))
		return
	case running:
		p.vanish(false)
	default:
		return
	}
	p.state = gone
	p.w.happened("%v ends: %v %v", p, x, x.Report.Cause)
	p.w.forgetProcess(p)
	x.Elapsed = p.w.now.Sub(p.begun)
	// The news takes its time: of several processes the one that ended first may be reported last.
	late := between(p.w.draw("end", p.role, p.host, p.ordinal), 0, 2*time.Millisecond)
	if p.chance.IntN(4) == 0 {
		late += between(p.chance, 0, 200*time.Millisecond)
	}
	p.w.after(late, func() { p.w.step(Ended{Process: p.number, Exit: x}) })
}

// die ends a process with its host.
func (p *proc) die(silently bool) {
	if p.state == running {
		p.vanish(silently)
		p.state = dead
	}
}

// lostWithHost tells the launcher of a process that died with its host.
func (p *proc) lostWithHost() {
	switch p.state {
	case starting:
		p.notStarted(errors.New("launch: connection lost"))
	case dead:
		p.state = gone
		p.w.happened("%v is lost", p)
		p.w.forgetProcess(p)
		p.w.step(Ended{Process: p.number, Exit: process.Exit{Code: 255, Err: "connection lost", Lost: true, Elapsed: p.w.now.Sub(p.begun)}})
	}
}

// vanish ends what others see of a process.
func (p *proc) vanish(silently bool) {
	switch {
	case p.role == scheduler:
		p.w.link.lost(p)
	case p.node != nil:
		p.node.vanish(silently)
	}
}

func (w *world) forgetProcess(p *proc) {
	w.processes = slices.DeleteFunc(w.processes, func(o *proc) bool { return o == p })
}

// signal sends a process a signal.
func (p *proc) signal(s syscall.Signal) {
	switch {
	case p.state == starting || p.state == gone || p.state == dead:
	case s == syscall.SIGKILL:
		p.end(exitOf(s))
	case p.stubborn:
		p.w.happened("%v ignores signal %d", p, s)
	case p.frozen:
		p.thawed = append(p.thawed, func() { p.signal(s) })
	case p.told:
	default:
		p.told = true
		p.w.happened("%v gets signal %d", p, s)
		switch {
		case p.role == scheduler:
			p.w.link.stop(p)
		case p.node != nil:
			p.node.terminate()
		default:
			p.after(between(p.chance, 10*time.Millisecond, 50*time.Millisecond), func() { p.end(exitOf(syscall.SIGTERM)) })
		}
	}
}

// final is the exit of a process that says that no restart can mend its error.
func final() process.Exit {
	return process.Exit{Code: 1, Report: exitreport.Report{Cause: exitreport.MissingFile, Text: "no such file"}}
}
