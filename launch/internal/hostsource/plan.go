package hostsource

import (
	"maps"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

// missingAnswers is the number of answers in a row without a host after which it leaves.
const missingAnswers = 2

// A plan is what is known of a source's hosts. Its next is a pure function, so a plan whose edit
// could not be written is simply kept.
type plan struct {
	// known has, by Key, the hosts that the source names, and those that it named and that are in
	// host_worker still.
	known map[hosts.Host]known
}

type known struct {
	// host has the limits that the source gave last.
	host hosts.Host

	// usable says that the last answers called the host usable: it has been put into host_worker.
	usable bool

	// missing is the number of answers in a row that did not name the host.
	missing int

	// leaves says that the host is to leave the job.
	leaves bool

	// word is the source's word for the host's state, in the last answer that named it.
	word string
}

// A step is what follows from an answer.
type step struct {
	edit hostworker.Change

	// held are hosts that the answer would remove, and that stay: they are more than half of
	// the managed ones, or all that the job has.
	held []Instance

	// managed is the number of hosts that the source has in the job.
	managed int

	// unknown are the hosts whose state is a word that is not known.
	unknown []Instance
}

// next is the plan after an answer, and what follows from it. listed are the hosts of host_worker.
// With force no removal is held back.
func (p plan) next(answer []Instance, listed []hosts.Host, force bool) (plan, step) {
	var s step
	in := make(map[hosts.Host]bool, len(listed))
	for _, h := range listed {
		in[h.Key()] = true
	}
	now := plan{maps.Clone(p.known)}
	if now.known == nil {
		now.known = make(map[hosts.Host]known)
	}
	named := make(map[hosts.Host]bool, len(answer))
	for _, i := range answer {
		key := i.Host.Key()
		named[key] = true
		now.known[key] = now.known[key].after(i, in[key], &s)
	}
	now.miss(named, in)
	leave := now.leaving(listed, &s)

	// A job has at least one host, and a source that suddenly names few of them is likely wrong.
	if !force && 2*len(leave) > s.managed || len(leave) == len(listed) && len(s.edit.Added) == 0 {
		s.held = leave
		return now, s
	}
	for _, i := range leave {
		s.edit.Removed = append(s.edit.Removed, i.Host)
	}
	return now, s
}

// after is what is known of a host once an answer names it. in says that it is in host_worker. What
// follows is added to s.
func (k known) after(i Instance, in bool, s *step) known {
	k.missing, k.word = 0, i.Word
	switch i.State {
	case Usable:
		switch old := k.host; {
		case !k.usable && !in:
			s.edit.Added = append(s.edit.Added, i.Host)
		case k.usable && in && (old.Slots != i.Host.Slots || !old.SameLimits(i.Host)):
			s.edit.Resized = append(s.edit.Resized, i.Host)
		}
		k.host, k.usable, k.leaves = i.Host, true, false
	case Leaving:
		k.host, k.usable, k.leaves = i.Host, false, true
	case Coming, Unknown:
		if k.leaves = false; k.host.Name == "" {
			k.host = i.Host
		}
		if i.State == Unknown {
			s.unknown = append(s.unknown, i)
		}
	}
	return k
}

// miss counts an answer for the hosts that it does not name. After some of them a host that is in
// host_worker is to leave, and another one is forgotten.
func (p plan) miss(named, in map[hosts.Host]bool) {
	for key, k := range p.known {
		if named[key] {
			continue
		}
		k.missing++
		switch {
		case k.missing < missingAnswers:
		case in[key]:
			k.usable, k.leaves = false, true
		default:
			delete(p.known, key)
			continue
		}
		p.known[key] = k
	}
}

// leaving are the hosts of host_worker that are to leave. It counts the managed ones.
func (p plan) leaving(listed []hosts.Host, s *step) (leave []Instance) {
	for _, h := range listed {
		k, ok := p.known[h.Key()]
		if !ok {
			continue
		}
		if s.managed++; !k.leaves {
			continue
		}
		i := Instance{Host: h, State: Leaving, Word: k.word}
		if k.missing > 0 {
			i.Word = "no longer named"
		}
		leave = append(leave, i)
	}
	return leave
}
