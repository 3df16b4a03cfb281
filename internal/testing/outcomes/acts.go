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
	deed, ok := deeds[a.Kind]
	if !ok {
		panic(fmt.Sprintf("act %q is not known", a.Kind))
	}
	deed(w, a)
}

// A deed is what happens in an act.
type deed func(w *world, a Act)

// deeds are those of all kinds of acts.
var deeds = map[string]deed{
	"kill worker":              exits(worker, exitOf(syscall.SIGKILL)),
	"worker fails":             workerFails,
	"worker ends":              exits(worker, process.Exit{}),
	"worker fails finally":     exits(worker, final()),
	"worker is told to end":    signals(worker, syscall.SIGTERM),
	"worker stands still":      standsStill(worker),
	"kill server":              exits(server, exitOf(syscall.SIGKILL)),
	"server fails":             exits(server, process.Exit{Code: 1}),
	"server stands still":      standsStill(server),
	"kill scheduler":           exits(scheduler, exitOf(syscall.SIGKILL)),
	"scheduler fails":          exits(scheduler, process.Exit{Code: 2}),
	"scheduler is told to end": signals(scheduler, syscall.SIGTERM),
	"scheduler stands still":   standsStill(scheduler),

	"link cut":          func(w *world, a Act) { w.link.disturb(&w.link.cut, a.For) },
	"answers lost":      func(w *world, a Act) { w.link.disturb(&w.link.deaf, a.For) },
	"messages repeated": func(w *world, a Act) { w.link.disturb(&w.link.echo, a.For) },

	"crash on":           func(w *world, a Act) { w.host(a.Host).crashes += a.N },
	"slow on":            slowHost,
	"host lost":          func(w *world, a Act) { loseHost(w, a, false) },
	"host lost silently": func(w *world, a Act) { loseHost(w, a, true) },
	"host refuses":       refuseHost,
	"notice":             func(w *world, a Act) { w.notice(w.host(a.Host), a) },
	"notice withdrawn":   func(w *world, a Act) { w.notice(w.host(a.Host), a) },
	"at risk":            func(w *world, a Act) { w.notice(w.host(a.Host), a) },

	"ctl":           func(w *world, a Act) { w.link.user(a.Command) },
	"edit add":      addToFile,
	"edit remove":   removeFromFile,
	"wish":          func(w *world, a Act) { w.wish = w.cores.Adaptation(a.N) },
	"cancel":        func(w *world, _ Act) { w.step(Cancelled{}) },
	"usr1":          func(w *world, _ Act) { w.step(Signalled{Signal: syscall.SIGUSR1}) },
	"signal":        func(w *world, a Act) { w.step(Signalled{Signal: syscall.Signal(a.N)}) },
	"signal twice":  signalTwice,
	"training ends": func(w *world, _ Act) { w.endTraining() },
}

// on lets something happen to the process of a role that the act picks, if there is one.
func (w *world) on(role string, a Act, what func(p *proc)) {
	if p := w.pick(role, a.Pick); p != nil {
		what(p)
	}
}

func exits(role string, x process.Exit) deed {
	return func(w *world, a Act) { w.on(role, a, func(p *proc) { p.end(x) }) }
}

func signals(role string, s syscall.Signal) deed {
	return func(w *world, a Act) { w.on(role, a, func(p *proc) { p.signal(s) }) }
}

func standsStill(role string) deed {
	return func(w *world, a Act) { w.on(role, a, func(p *proc) { p.freeze(a.For) }) }
}

// workerFails ends a worker with one of the exit codes 1 to 3.
func workerFails(w *world, a Act) { exits(worker, process.Exit{Code: 1 + a.Pick%3})(w, a) }

// slowHost makes processes of a host start slowly for twice the time that a start then takes.
func slowHost(w *world, a Act) {
	h := w.host(a.Host)
	h.slow = a.For
	w.after(2*a.For, func() { h.slow = 0 })
}

// forGood is a time that no host comes back from.
const forGood = time.Hour

// loseHost lets a host vanish; silently: its connections stay open, so no one hears of it.
func loseHost(w *world, a Act, silently bool) {
	h := w.host(a.Host)
	w.lose(h, silently)
	if a.For < forGood {
		w.after(a.For, func() { w.comeBack(h) })
	}
}

// refuseHost lets a host take no connections for a time. What runs on it goes on.
func refuseHost(w *world, a Act) {
	h := w.host(a.Host)
	h.refuses = true
	if a.For < forGood {
		w.after(a.For, func() {
			h.refuses = false
			w.happened("host %s can be reached", h.name)
		})
	}
}

// addToFile adds a host to the file of hosts. Launch watches the file only in elastic jobs.
func addToFile(w *world, a Act) {
	if n := (hosts.Host{Name: a.Host}); w.job.Elastic && w.files.find(a.Host) < 0 {
		w.files.list(n, true)
		w.step(Edited{Added: []hosts.Host{n}})
	}
}

// removeFromFile takes a host out of the file of hosts, as a person edits it.
func removeFromFile(w *world, a Act) {
	if i := w.files.find(a.Host); i >= 0 {
		n := w.files.listed[i]
		w.files.list(n, false)
		w.step(Edited{Removed: []hosts.Host{n}})
	}
}

// signalTwice is a person who does not wait for the end of an orderly stop.
func signalTwice(w *world, a Act) {
	s := Signalled{Signal: syscall.Signal(a.N)}
	w.step(s)
	w.after(700*time.Millisecond, func() { w.step(s) })
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
