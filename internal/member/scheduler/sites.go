package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/hostname"
)

// Sites are the hosts on which workers and servers may run. It says where there is room; who is
// there it is told.
type sites struct {
	all   []*site
	dirty bool
	// relisted says that host_worker should list other hosts than the launcher was told.
	relisted bool
}

// A site is a host on which workers or servers may run.
type site struct {
	keptSite
	// key is that of Name: two spellings of one host have the same.
	key hostname.Name
	// connection is that of the newest report; 0: there is none.
	connection int
	runs       string // what else runs there, and cannot move
}

// keptSite is what the journal has of a site.
type keptSite struct {
	Name    string
	Slots   int  `json:",omitempty"` // workers that may run there; 0: any number
	GPUs    int  `json:",omitempty"`
	CPUs    int  `json:",omitempty"`
	Listed  bool `json:",omitempty"` // in the hosts file: it stays when it is removed
	Workers bool `json:",omitempty"` // workers may run there
	Servers bool `json:",omitempty"` // servers may run there
	First   int  `json:",omitempty"` // servers that the job began with
	// Withdrawn: it was removed by name. No worker is started there until it is added, or
	// asked for by name.
	Withdrawn bool `json:",omitempty"`
	// Away: it was taken away, or is about to be, and was not connected again since.
	Away bool `json:",omitempty"`
	// AwayFrom is the connection that it had then.
	AwayFrom int `json:",omitempty"`
	// File is how many workers host_worker should list there; 0: it should not list the host.
	File int `json:",omitempty"`
	// Kept says that its removal was refused: whoever asked may have edited host_worker, which is
	// told of the host with the next number of workers there, also if that is the same.
	Kept bool `json:",omitempty"`
	// Again counts how often it was told so.
	Again int `json:",omitempty"`
}

// of finds a host; nil: it is not there.
func (r *sites) of(name string) *site {
	h, err := hostname.Parse(name)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(r.all, func(p *site) bool { return p.key == h.Key() })
	if i < 0 {
		return nil
	}
	return r.all[i]
}

// add finds a host, or takes it in.
func (r *sites) add(name string) (*site, error) {
	if p := r.of(name); p != nil {
		return p, nil
	}
	h, err := hostname.Parse(name)
	if err != nil {
		return nil, err
	}
	p := &site{keptSite: keptSite{Name: name}, key: h.Key()}
	r.all, r.dirty = append(r.all, p), true
	return p, nil
}

// observe takes how the launcher sees a host. The limits of a host count that it is seen with
// first.
func (r *sites) observe(x control.ObservedHost) {
	p := r.of(x.Host)
	if p == nil {
		if !x.Listed && !x.Servers && x.Runs == "" && x.Notice == nil {
			return
		}
		var err error
		if p, err = r.add(x.Host); err != nil {
			return
		}
		p.keptSite = keptSite{Name: x.Host, Slots: x.Slots, GPUs: x.GPUs, CPUs: x.CPUs, Listed: x.Listed, Workers: x.Listed, Servers: x.Servers, First: x.First}
	}
	p.connection, p.runs = x.Connection, x.Runs
	if p.Away && x.Connection != 0 && x.Connection != p.AwayFrom {
		p.Away, r.dirty = false, true
	}
}

// enrol takes a host that was added by name.
func (r *sites) enrol(name string, slots, gpus, cpus int) (*site, error) {
	p, err := r.add(name)
	if err != nil {
		return nil, err
	}
	if !p.Workers {
		p.Workers, p.Slots = true, max(slots, 1)
	} else if p.Slots > 0 {
		p.Slots = max(p.Slots, slots)
	}
	if gpus != 0 {
		p.GPUs = gpus
	}
	if cpus != 0 {
		p.CPUs = cpus
	}
	p.Withdrawn, r.dirty = false, true
	return p, nil
}

// withdraw takes a host out of use for workers that was removed by name.
func (r *sites) withdraw(name string) {
	r.suspend(name)
	r.list(name, 0)
}

// suspend takes a host out of use for workers. host_worker lists it as before.
func (r *sites) suspend(name string) {
	p := r.of(name)
	switch {
	case p == nil:
		return
	case p.Listed:
		p.Withdrawn = true
	default:
		p.Workers = false
	}
	r.dirty = true
}

// list says how many workers host_worker should list on a host.
func (r *sites) list(name string, workers int) {
	p := r.of(name)
	if p == nil || p.File == workers && !p.Kept {
		return
	}
	if p.File == workers {
		p.Again++
	}
	p.File, p.Kept, r.dirty, r.relisted = workers, false, true, true
}

// keeps notes that a host stays whose removal was asked for.
func (r *sites) keeps(name string) {
	if p := r.of(name); p != nil && p.File > 0 {
		p.Kept, r.dirty = true, true
	}
}

// slots is how many workers a host without slots= has before the others' slots are full.
func (p *site) slots() int { return max(p.Slots, 1) }

// usable reports whether workers may be started on a host.
func (p *site) usable() bool { return p.Workers && !p.Withdrawn }

// A starts is workers that are to be started on a host.
type starts struct {
	Host    string
	Workers int
}

// room chooses hosts for more workers: free slots in the order of the hosts, then hosts without
// slots=, the one with the fewest workers first. It returns for how many it found a site. A host
// without slots=, such as the localhost of a job without a hosts file, takes any number and is never
// full.
func (r *sites) room(missing int, count func(host string) int, avoid []string) (plan []starts, placed int) {
	more := make(map[*site]int)
	free := slices.DeleteFunc(slices.Clone(r.all), func(p *site) bool { return !p.usable() || slices.Contains(avoid, p.Name) })
	for _, p := range free {
		if n := min(missing-placed, p.slots()-count(p.Name)); n > 0 {
			more[p], placed = n, placed+n
		}
	}
	for ; placed < missing; placed++ {
		var best *site
		for _, p := range free {
			if p.Slots == 0 && (best == nil || count(p.Name)+more[p] < count(best.Name)+more[best]) {
				best = p
			}
		}
		if best == nil {
			break
		}
		more[best]++
	}
	for _, p := range free {
		if more[p] > 0 {
			plan = append(plan, starts{p.Name, more[p]})
		}
	}
	return plan, placed
}

// text says of each host how many slots it has, and how many are taken.
func (r *sites) text(count func(host string) int) string {
	var parts []string
	for _, p := range r.all {
		switch {
		case !p.Workers:
		case len(parts) == 20:
			return strings.Join(append(parts, "..."), ", ")
		case p.Withdrawn:
			parts = append(parts, fmt.Sprintf("%s was removed", p.Name))
		default:
			parts = append(parts, fmt.Sprintf("%s has %d of %d slots taken", p.Name, count(p.Name), p.slots()))
		}
	}
	return strings.Join(parts, ", ")
}

// most is how many workers there is room for, where those without slots= take so many.
func (r *sites) most(open int, count func(host string) int) (room int) {
	for _, p := range r.all {
		switch {
		case !p.usable():
		case p.Slots == 0:
			room += open
		default:
			room += max(p.Slots, count(p.Name))
		}
	}
	return room
}

// server chooses where one more server runs: of the hosts that the job began with servers on, the
// one with the fewest; if those are away, of all that may run servers. Empty: all are away.
func (r *sites) server(count func(host string) int) (best string) {
	least := -1
	for _, first := range []bool{true, false} {
		for _, p := range r.all {
			switch n := count(p.Name); {
			case p.Away || first && p.First == 0 || !first && (!p.Servers || p.Withdrawn):
			case least < 0 || n < least:
				best, least = p.Name, n
			}
		}
		if least >= 0 {
			break
		}
	}
	return best
}

// wanted are the hosts as host_worker should list them.
func (r *sites) wanted() (list []control.WantedHost) {
	for _, p := range r.all {
		if p.File > 0 {
			list = append(list, control.WantedHost{Host: p.Name, Slots: p.File, GPUs: p.GPUs, CPUs: p.CPUs, Again: p.Again})
		}
	}
	return list
}

// keep records the sites, if they have changed.
func (r *sites) keep(out *output) {
	if r.dirty {
		r.dirty = false
		out.put("site", r.kept())
	}
}

// kept is the record of the sites.
func (r *sites) kept() (list []keptSite) {
	for _, p := range r.all {
		list = append(list, p.keptSite)
	}
	return list
}

// restore takes the record of the sites.
func (r *sites) restore(_ string, value []byte) error {
	var list []keptSite
	if err := json.Unmarshal(value, &list); err != nil {
		return err
	}
	for _, k := range list {
		p, err := r.add(k.Name)
		if err != nil {
			return err
		}
		p.keptSite = k
	}
	r.dirty = false
	return nil
}

// occupied are all hosts with workers that stay, as count says of each.
func (r *sites) occupied(count func(host string) int) (list []string) {
	for _, p := range r.all {
		if count(p.Name) > 0 {
			list = append(list, p.Name)
		}
	}
	return list
}

// inAll is how many workers stay on all hosts.
func (r *sites) inAll(count func(host string) int) (n int) {
	for _, p := range r.all {
		n += count(p.Name)
	}
	return n
}

// start wants more workers on a host.
func (r *sites) start(f *fleet, host string, workers int, prepare bool) {
	x := control.WantedProcess{Role: control.Worker, Host: host, Prepare: prepare, Slots: workers}
	if p := r.of(host); p != nil {
		p.Withdrawn, r.dirty = false, true
		x.GPUs, x.CPUs, x.Slots = p.GPUs, p.CPUs, max(p.Slots, workers)
	}
	for range workers {
		f.want(x)
	}
}

// listMembers lets host_worker list as many workers on a host as are in the job and stay, so that a
// job that is started again has them, too.
func (r *sites) listMembers(f *fleet, host string) {
	members := 0
	for _, p := range f.stayingOn(host) {
		if p.Joined {
			members++
		}
	}
	if members > 0 {
		r.list(host, members)
	}
}
