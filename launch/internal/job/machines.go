package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/control"
)

// A machine is one that is connected.
type machine struct {
	id  int
	key string
	// address is how others reach it, launcher how it sees the launcher; that is empty for the
	// launching machine.
	address, launcher string
	// lost says that the connection is gone.
	lost bool
	// closing says that it is being closed, and nothing of the job is there.
	closing bool
	// notice says that its host is about to be taken away; nil: it is not, so far as is known.
	notice *hostNotice
}

// usable reports whether processes can be started there.
func (m *machine) usable() bool { return m != nil && !m.lost && !m.closing }

// host is the machine's host. Its key is the spelling of one.
func (m *machine) host() hosts.Host {
	if m.key == "" {
		return hosts.Local
	}
	h, _ := hosts.ParseHost(m.key)
	return h
}

// A hostNotice says that a host is about to be taken away.
type hostNotice struct {
	// by is when its processes are ended.
	by time.Time
	// checkpointBy is when a checkpoint of the job must be complete: processes that are stopped
	// then have their time.
	checkpointBy time.Time
	text         string
}

// left is the notice with the time that is left.
func (n *hostNotice) left(now time.Time) *control.HostNotice {
	return &control.HostNotice{LeftMillis: max(n.by.Sub(now), 0).Milliseconds(), CheckpointMillis: max(n.checkpointBy.Sub(now), 0).Milliseconds(), Text: n.text}
}

// A connection is one that is being made.
type connection struct {
	id   int
	key  string
	host hosts.Host
	// goal is what it is made for: *initialConnection, *access or schedulerAgain.
	goal any
}

// machines are the connections to hosts. Of each host one is in use; others of it may be about to be
// closed. A host is known by its key: its spelling, or the empty string for the launching machine.
type machines struct {
	out *output
	// remote says that hosts are connected to; else all processes run on the launching machine.
	remote bool
	// calls are the connections that are being made, by their number. A machine has the number
	// of the connection that led to it.
	calls map[int]*connection
	last  int
	// byID are all machines that are connected, or are being closed.
	byID map[int]*machine
	// used are those in use, by key.
	used map[string]*machine
}

func newMachines(out *output, remote bool) machines {
	return machines{out: out, remote: remote, calls: make(map[int]*connection), byID: make(map[int]*machine), used: make(map[string]*machine)}
}

// key is how the machine of a host is called.
func (m *machines) key(h hosts.Host) string {
	if !m.remote {
		return ""
	}
	return h.String()
}

// at is the machine of a host that is in use; nil: none is.
func (m *machines) at(h hosts.Host) *machine { return m.used[m.key(h)] }

// call numbers a connection that is about to be made.
func (m *machines) call(key string, h hosts.Host, goal any) int {
	m.last++
	m.calls[m.last] = &connection{m.last, key, h, goal}
	return m.last
}

// answered removes a connection that was made, or could not be; nil: it is not known.
func (m *machines) answered(id int) *connection {
	k := m.calls[id]
	delete(m.calls, id)
	return k
}

// begin takes a machine that the job begins with.
func (m *machines) begin(k *connection, e connected) {
	x := &machine{id: e.id, key: k.key, address: e.address, launcher: e.launcher}
	m.byID[x.id], m.used[k.key] = x, x
}

// connected takes what came of a connection of a running job. fresh says that the machine was not
// connected before. scheduler is where the machine's processes have to reach the scheduler: who has
// a loopback address cannot reach another host, and cannot be reached.
func (m *machines) connected(k *connection, e connected, scheduler string, keep bool) (x *machine, fresh bool, err error) {
	switch {
	case e.err != nil:
		return nil, false, e.err
	case !m.remote:
		return m.used[k.key], false, nil
	}
	x = &machine{id: e.id, key: k.key, address: e.address, launcher: e.launcher}
	m.byID[x.id] = x
	if isLoopback(x.address) != isLoopback(scheduler) {
		m.close(x, false)
		return nil, false, fmt.Errorf("launch: host %s has the address %s, and the scheduler %s; other hosts cannot reach a loopback address",
			k.host, x.address, scheduler)
	}
	if keep {
		x = m.adopt(x)
	}
	return x, true, nil
}

// adopt makes a machine the one of its host, and returns that: where the host was connected
// meanwhile for another reason the older connection stays. What is left over is closed.
func (m *machines) adopt(x *machine) *machine {
	over := m.used[x.key]
	if over != nil && !over.lost {
		x, over = over, x
	}
	m.used[x.key] = x
	if over != nil && over != x {
		m.close(over, false)
	}
	return x
}

// close closes a machine. With dismiss its host is told that the job does not need it any more.
func (m *machines) close(x *machine, dismiss bool) {
	if !x.closing {
		x.closing = true
		m.out.do(closeMachine{x.id, dismiss})
	}
}

// release closes the machine of a host that the job does not need any more.
func (m *machines) release(x *machine, dismiss bool) {
	delete(m.used, x.key)
	m.close(x, dismiss)
}

// lost says that a connection is lost.
func (m *machines) lost(id int) {
	if x := m.byID[id]; x != nil {
		x.lost, m.out.changed = true, true
	}
}

// closed takes the answer to closeMachine.
func (m *machines) closed(e machineClosed) {
	x := m.byID[e.machine]
	if x == nil {
		return
	}
	delete(m.byID, e.machine)
	x.notice, m.out.changed = nil, true
	// An error of a lost one was told with the processes that it had.
	if e.err != nil && !x.lost {
		m.out.warn(e.err.Error())
	}
}

// busy reports whether a connection is being made or closed.
func (m *machines) busy() bool {
	if len(m.calls) > 0 {
		return true
	}
	for _, x := range m.byID {
		if x.closing {
			return true
		}
	}
	return false
}

// cancel cancels the connections that are being made. Their answers still come.
func (m *machines) cancel(why string) {
	for _, id := range sortedKeys(m.calls) {
		m.out.do(cancelCall{id, why})
	}
}

// departing reports whether a host is being taken away.
func (m *machines) departing(h hosts.Host) bool {
	x := m.at(h)
	return x != nil && x.notice != nil
}

// noticed returns the notices of hosts that are being taken away.
func (m *machines) noticed() (list []*hostNotice) {
	for _, x := range m.byID {
		if x.notice != nil {
			list = append(list, x.notice)
		}
	}
	return list
}

// observed are the hosts on which workers or servers may run, and those that are connected.
// scheduler is the machine of the scheduler, if that lives.
func (m *machines) observed(set *settings, scheduler *machine) (list []control.ObservedHost) {
	now := m.out.now
	at := make(map[string]int)
	of := func(h hosts.Host) *control.ObservedHost {
		name := h.String()
		if i, known := at[name]; known {
			return &list[i]
		}
		at[name] = len(list)
		list = append(list, m.observedHost(h, scheduler))
		return &list[at[name]]
	}
	for _, h := range hosts.Merge(set.Hosts) {
		x := of(h)
		x.Listed, x.Slots, x.GPUs, x.CPUs = true, h.Slots, h.GPUs, h.CPUs
	}
	for _, h := range hosts.Merge(set.ServerHosts) {
		of(h).Servers = true
	}
	for _, h := range set.Servers {
		of(h).First++
	}
	// The launching machine is a host of the job only where it is about to be taken away.
	if x := m.used[""]; m.remote && x != nil && x.notice != nil {
		list = append(list, control.ObservedHost{Host: hosts.Local.String(), Connection: x.id, Runs: "launch", Notice: x.notice.left(now)})
	}
	for _, key := range sortedKeys(m.used) {
		if h, err := hosts.ParseHost(key); err == nil {
			of(h)
		}
	}
	return list
}

// observedHost is what is observed of a host alone.
func (m *machines) observedHost(h hosts.Host, scheduler *machine) control.ObservedHost {
	o := control.ObservedHost{Host: h.String()}
	x := m.at(h)
	if !x.usable() {
		return o
	}
	if o.Connection = x.id; x.notice != nil {
		o.Notice = x.notice.left(m.out.now)
	}
	if x == scheduler {
		o.Runs = control.Scheduler
	} else if x.key == "" {
		o.Runs = "launch"
	}
	return o
}

// checkAddresses refuses nodes on hosts that the others cannot reach.
func checkAddresses(nodes []*Node) error {
	var loop, far string
	for _, n := range nodes {
		switch {
		case n.machine.launcher == "":
		case isLoopback(n.machine.address):
			loop = n.Host
		default:
			far = n.Host
		}
	}
	if loop != "" && far != "" {
		return fmt.Errorf("launch: host %s has a loopback address, which %s cannot reach; give it an address that they reach (the hosts file, or --host-ip of its agent)", loop, far)
	}
	return nil
}

// sortedKeys are the keys of a map in their order, so that the same events lead to the same
// actions.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
