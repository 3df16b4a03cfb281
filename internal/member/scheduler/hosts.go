package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// A hostTable has the hosts of workers, each with its status: a host is being added until a worker
// from it counts, is added, is being removed until its last worker has left, and then is removed;
// or it has failed.
//
// Invariants: a host that has a worker that counts is known; a host that is being added has a
// deadline, unless a worker has registered from it, whose own deadline counts then.
type hostTable struct {
	joinTimeout time.Duration
	hosts       map[string]*host
	// changed says that hosts got a status since forgetGone was called.
	changed bool
}

type host struct {
	status string
	reason string
	// since is the number of the event before it got the status.
	since uint64
	// by is when it fails if no worker has come from it; zero: one has.
	by time.Time
	// dismissed says that it was removed by name.
	dismissed bool
}

func newHostTable(joinTimeout time.Duration) hostTable {
	return hostTable{joinTimeout: joinTimeout, hosts: make(map[string]*host)}
}

// status is the status of a host; empty: it is not known.
func (t *hostTable) status(name string) string {
	if h := t.hosts[name]; h != nil {
		return h.status
	}
	return ""
}

// set gives a host a status.
func (t *hostTable) set(out *output, name, status, reason string) {
	t.hosts[name] = &host{status: status, reason: reason, since: out.events.last}
	t.changed = true
	t.put(out, name)
}

func (t *hostTable) put(out *output, name string) {
	h := t.hosts[name]
	out.put(hostKey(name), keptHost{h.status, h.reason, h.dismissed})
}

// dismiss notes that a host was removed by name.
func (t *hostTable) dismiss(out *output, name string) {
	t.hosts[name].dismissed = true
	t.put(out, name)
}

// dismissed lists the hosts that were removed by name.
func (t *hostTable) dismissed() (names []string) {
	for name, h := range t.hosts {
		if h.dismissed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// tell is set, and tells the event of that.
func (t *hostTable) tell(out *output, name, status, reason string) {
	t.set(out, name, status, reason)
	out.event(control.Event{Action: status, Host: name, Reason: reason})
}

// expect makes a host one that is being added: workers will come from it.
func (t *hostTable) expect(out *output, name string) {
	t.set(out, name, control.AddQueued, "")
	t.hosts[name].by = out.now.Add(t.joinTimeout)
}

// joins notes that a worker has registered from a host, and will count later.
func (t *hostTable) joins(out *output, name string) {
	switch t.status(name) {
	case "", control.HostFailed:
		t.set(out, name, control.AddQueued, "")
	case control.AddQueued:
		t.hosts[name].by = time.Time{}
	}
}

// entered notes that a worker of a host counts now.
func (t *hostTable) entered(out *output, name string) {
	switch t.status(name) {
	case "", control.AddQueued, control.HostFailed:
		t.set(out, name, control.Added, "")
	}
}

// emptied notes that a worker has left its host as asked; with the last one the host is removed.
func (t *hostTable) emptied(out *output, name string, r *roster) {
	if t.status(name) == control.RemovalQueued && !r.hasWorkers(name) {
		dismissed := t.hosts[name].dismissed
		t.tell(out, name, control.Removed, "")
		if dismissed {
			t.dismiss(out, name)
		}
	}
}

// left updates the host, and tells the event, when a worker that was asked to leave has left.
func (t *hostTable) left(out *output, n *node, r *roster) {
	switch status := t.status(n.Host); status {
	case "":
	case control.RemovalQueued:
		t.emptied(out, n.Host, r)
	default:
		out.event(n.event(control.Left, ""))
		if status == control.Added && !r.hasWorkers(n.Host) {
			// Those who were to stay were lost meanwhile.
			t.set(out, n.Host, control.HostFailed, "its workers were lost or have left")
		}
	}
}

// lost updates the host of a worker that was lost.
func (t *hostTable) lost(out *output, n *node, text string, r *roster) {
	switch {
	case t.status(n.Host) == control.RemovalQueued:
		t.emptied(out, n.Host, r)
	case !r.hasWorkers(n.Host):
		t.set(out, n.Host, control.HostFailed, text)
	}
}

// awaited is the number of hosts that are being added and have no worker yet.
func (t *hostTable) awaited(hasWorkers func(name string) bool) (n int) {
	for name, h := range t.hosts {
		if h.status == control.AddQueued && !hasWorkers(name) {
			n++
		}
	}
	return n
}

// late lists the hosts from which no worker has come in time.
func (t *hostTable) late(now time.Time) (names []string) {
	for name, h := range t.hosts {
		if !h.by.IsZero() && !now.Before(h.by) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// renew renews the deadlines, after the scheduler was paused.
func (t *hostTable) renew(now time.Time) {
	for _, h := range t.hosts {
		if !h.by.IsZero() {
			h.by = now.Add(t.joinTimeout)
		}
	}
}

func (t *hostTable) next(open bool) (next time.Time) {
	if !open {
		return next
	}
	for _, h := range t.hosts {
		next = sooner(next, h.by)
	}
	return next
}

// list is the hosts as a status has them.
func (t *hostTable) list() []control.Host {
	list := []control.Host{}
	for _, name := range slices.Sorted(maps.Keys(t.hosts)) {
		list = append(list, control.Host{Host: name, Status: t.hosts[name].status, Reason: t.hosts[name].reason})
	}
	return list
}

// forgetGone forgets the hosts that were removed or have failed but the newest. A host is never
// forgotten on which a worker lives.
func (t *hostTable) forgetGone(out *output, hasWorkers func(name string) bool) {
	if !t.changed || len(t.hosts) <= maxGone {
		return
	}
	t.changed = false
	var gone []string
	for name, h := range t.hosts {
		if (h.status == control.Removed || h.status == control.HostFailed) && !hasWorkers(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int {
		return cmp.Or(cmp.Compare(t.hosts[a].since, t.hosts[b].since), strings.Compare(a, b))
	})
	for _, name := range gone[:len(gone)-maxGone] {
		delete(t.hosts, name)
		out.drop(hostKey(name))
	}
}

// A keptHost is the record of a host.
type keptHost struct {
	Status    string
	Reason    string
	Dismissed bool `json:",omitempty"`
}

func hostKey(name string) string { return "host/" + name }

func (t *hostTable) restore(name string, value []byte) error {
	var k keptHost
	if err := json.Unmarshal(value, &k); err != nil {
		return err
	}
	t.hosts[name] = &host{status: k.Status, reason: k.Reason, dismissed: k.Dismissed}
	return nil
}

// restored gives the hosts that are being added their time again.
func (t *hostTable) restored(now time.Time, hasWorkers func(name string) bool) {
	for name, h := range t.hosts {
		if h.status == control.AddQueued && !hasWorkers(name) {
			h.by = now.Add(t.joinTimeout)
		}
	}
}

// cannotAdd says why workers of a host cannot be asked for; empty: they can.
func (t *hostTable) cannotAdd(name string) string {
	switch t.status(name) {
	case control.AddQueued:
		return fmt.Sprintf("host %s is being added already", name)
	case control.Added:
		return fmt.Sprintf("host %s is in the job already", name)
	case control.RemovalQueued:
		return fmt.Sprintf("host %s is being removed; add it again once it is removed", name)
	}
	return ""
}

// cannotRemove says why the workers of a host cannot be asked to leave; empty: they can.
func (t *hostTable) cannotRemove(name string) string {
	switch t.status(name) {
	case "":
		return fmt.Sprintf("host %s has no worker", name)
	case control.Removed:
		return fmt.Sprintf("host %s was removed already", name)
	case control.RemovalQueued:
		return fmt.Sprintf("host %s is being removed already", name)
	}
	return ""
}

// cannotFail says why a report that a host has failed is ignored; empty: it is not.
func (t *hostTable) cannotFail(name string) string {
	status := t.status(name)
	switch status {
	case control.AddQueued:
		return ""
	case "":
		status = "not known"
	}
	return fmt.Sprintf("host %s is %s: only a host that is being added can fail", name, status)
}

// leaves reports whether a host is being removed, or was.
func (t *hostTable) leaves(host string) bool {
	status := t.status(host)
	return status == control.RemovalQueued || status == control.Removed
}
