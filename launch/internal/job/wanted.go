package job

import (
	"maps"
	"slices"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A wantedState is what the scheduler wants, as it said last. It only holds that: core.takeWanted
// compares it with the processes that there are. While the scheduler is away this holds. Before it has said anything, all processes that the job began with are wanted.
type wantedState struct {
	// revision is 0 until the scheduler has said something.
	revision uint64
	// after is the number of the newest event.
	after uint64
	// processes are those that the scheduler names.
	processes map[uint32]control.WantedProcess
	// hosts are those that host_worker should list, by name; nil: nothing was said of them yet.
	hosts map[string]control.WantedHost
	// listed are all hosts that were ever among them.
	listed map[string]bool
	// over says that the job has finished or failed: it does not go on without what was lost.
	over bool
	// dismissed are hosts that were removed by name: nobody needs them any more.
	dismissed []string
}

// names reports whether the scheduler names a process, or has not named any.
func (w *wantedState) names(process uint32) bool {
	_, named := w.processes[process]
	return named || w.revision == 0
}

// left reports whether a host had workers of the job, and is to have none any more.
func (w *wantedState) left(host string) bool {
	_, wanted := w.hosts[host]
	return w.listed[host] && !wanted
}

// dismisses reports whether a host was removed by name.
func (w *wantedState) dismisses(host string) bool { return slices.Contains(w.dismissed, host) }

// news returns the events that were not taken before.
func (w *wantedState) news(events []control.Event) (fresh []control.Event) {
	for _, e := range events {
		if e.Number > w.after {
			w.after = e.Number
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// take takes the processes that are wanted from now on, and returns those that were until now.
func (w *wantedState) take(x *control.Wanted) (before map[uint32]control.WantedProcess) {
	before = w.processes
	w.processes, w.dismissed = make(map[uint32]control.WantedProcess), x.Dismissed
	for _, p := range x.Processes {
		w.processes[p.Process] = p
	}
	return before
}

// list takes the hosts that host_worker should list, and has the file changed accordingly. The first
// time it lists them already.
func (w *wantedState) list(out *output, list []control.WantedHost) {
	before, first := w.hosts, w.hosts == nil
	w.hosts = make(map[string]control.WantedHost)
	if w.listed == nil {
		w.listed = make(map[string]bool)
	}
	change := func(x control.WantedHost, named bool) {
		if h, err := hosts.ParseHost(x.Host); err == nil {
			h.Slots, h.GPUs, h.CPUs = x.Slots, x.GPUs, x.CPUs
			out.do(listHost{h, named})
		}
	}
	for _, h := range list {
		w.hosts[h.Host], w.listed[h.Host] = h, true
		if old, had := before[h.Host]; !first && (!had || old != h) {
			change(h, true)
		}
	}
	for _, host := range sortedKeys(before) {
		if _, still := w.hosts[host]; !still {
			change(control.WantedHost{Host: host}, false)
		}
	}
}

// replacement is the process that is wanted in the place of one that ended before the job was
// complete; false: none is.
func (w *wantedState) replacement(n *Node) (control.WantedProcess, bool) {
	for _, number := range slices.Sorted(maps.Keys(w.processes)) {
		if p := w.processes[number]; p.Early && p.Role == n.Role && p.Number == n.number && number > n.process {
			return p, true
		}
	}
	return control.WantedProcess{}, false
}
