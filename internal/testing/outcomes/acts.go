package outcomes

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/process"
)

// pick chooses one of the running processes of a role; nil: there is none.
func (w *world) pick(role string, n int) *proc {
	var all []*proc
	for _, p := range w.processes {
		if p.role == role && p.state == running {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *proc) int {
		if c := strings.Compare(a.machine.host.name, b.machine.host.name); c != 0 {
			return c
		}
		return a.ordinal - b.ordinal
	})
	return all[n%len(all)]
}

// carryOut lets an act happen.
func (w *world) carryOut(a Act) {
	w.happened("ACT %v", a)
	on := func(role string, what func(p *proc)) {
		if p := w.pick(role, a.Pick); p != nil {
			what(p)
		}
	}
	exits := func(role string, x process.Exit) { on(role, func(p *proc) { p.end(x) }) }
	h := w.host(a.Host)
	switch a.Kind {
	case "ctl":
		w.link.user(a.Command)
	case "kill worker":
		exits(worker, exitOf(syscall.SIGKILL))
	case "worker fails":
		exits(worker, process.Exit{Code: 1 + a.Pick%3})
	case "worker ends":
		exits(worker, process.Exit{})
	case "worker fails finally":
		exits(worker, final())
	case "worker is told to end":
		on(worker, func(p *proc) { p.signal(syscall.SIGTERM) })
	case "worker stands still":
		on(worker, func(p *proc) { p.freeze(a.For) })
	case "server stands still":
		on(server, func(p *proc) { p.freeze(a.For) })
	case "scheduler stands still":
		on(scheduler, func(p *proc) { p.freeze(a.For) })
	case "kill server":
		exits(server, exitOf(syscall.SIGKILL))
	case "server fails":
		exits(server, process.Exit{Code: 1})
	case "kill scheduler":
		exits(scheduler, exitOf(syscall.SIGKILL))
	case "scheduler fails":
		exits(scheduler, process.Exit{Code: 2})
	case "scheduler is told to end":
		on(scheduler, func(p *proc) { p.signal(syscall.SIGTERM) })
	case "link cut":
		w.link.disturb(&w.link.cut, a.For)
	case "answers lost":
		w.link.disturb(&w.link.deaf, a.For)
	case "messages repeated":
		w.link.disturb(&w.link.echo, a.For)
	case "crash on":
		h.crashes += a.N
	case "slow on":
		h.slow = a.For
		w.after(2*a.For, func() { h.slow = 0 })
	case "host lost", "host lost silently":
		w.lose(h, a.Kind == "host lost silently")
		if a.For < time.Hour {
			w.after(a.For, func() { w.comeBack(h) })
		}
	case "host refuses":
		h.refuses = true
		if a.For < time.Hour {
			w.after(a.For, func() {
				h.refuses = false
				w.happened("host %s can be reached", h.name)
			})
		}
	case "notice", "notice withdrawn", "at risk":
		w.notice(h, a)
	case "edit add":
		if n := (hosts.Host{Name: a.Host}); w.job.Elastic && w.files.find(a.Host) < 0 {
			w.files.list(n, true)
			w.step(Edited{Added: []hosts.Host{n}})
		}
	case "edit remove":
		if i := w.files.find(a.Host); i >= 0 {
			n := w.files.listed[i]
			w.files.list(n, false)
			w.step(Edited{Removed: []hosts.Host{n}})
		}
	case "wish":
		w.wish = w.cores.Adaptation(a.N)
	case "cancel":
		w.step(Cancelled{})
	case "usr1":
		w.step(Signalled{Signal: syscall.SIGUSR1})
	case "signal", "signal twice":
		w.step(Signalled{Signal: syscall.Signal(a.N)})
		if a.Kind == "signal twice" {
			w.after(700*time.Millisecond, func() { w.step(Signalled{Signal: syscall.Signal(a.N)}) })
		}
	case "training ends":
		w.endTraining()
	default:
		panic(fmt.Sprintf("act %q is not known", a.Kind))
	}
}

// endTraining lets all workers finish.
func (w *world) endTraining() {
	w.finishing = true
	for _, p := range slices.Clone(w.processes) {
		if p.node != nil && p.role == worker && p.node.counts && p.state == running {
			p.node.finish()
		}
	}
}

// notice lets a host be taken away after a time, unless the notice is withdrawn or is of a mere
// risk.
func (w *world) notice(h *host, a Act) {
	n := Noticed{Code: "preempted", Left: a.For}
	switch {
	case a.Kind == "at risk":
		n = Noticed{Code: "risk"}
	case a.Pick%3 == 0:
		n.Code = "terminated"
	}
	tell := func(n Noticed) {
		for _, id := range sortedKeys(w.machines) {
			if m := w.machines[id]; m.host == h && !m.closed && !m.lost {
				n.Machine = id
				w.step(n)
			}
		}
	}
	tell(n)
	switch a.Kind {
	case "notice":
		w.after(a.For, func() { w.lose(h, false) })
	case "notice withdrawn":
		d := []time.Duration{100 * time.Millisecond, 2 * time.Second, a.For / 2}[a.Pick/3%3]
		w.after(d, func() {
			w.happened("the notice of %s is withdrawn", h.name)
			tell(Noticed{Code: n.Code, Withdrawn: true})
		})
	}
}
