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
	known map[hosts.Host]known // by Key: those that the source names, and those that it named and that are in host_worker still
}

type known struct {
	host    hosts.Host // with the limits that the source gave last
	usable  bool       // the last answers said so: it has been put into host_worker
	missing int        // answers in a row without it
	leaves  bool       // it is to leave
	word    string     // for its state, in the last answer that named it
}

// A step is what follows from an answer.
type step struct {
	edit hostworker.Change
	// held are hosts that the answer would remove, and that stay: they are more than half of
	// the managed ones, or all that the job has.
	held    []Instance
	managed int        // hosts that the source has in the job
	unknown []Instance // with a state that is not known
}

// next is the plan after an answer, and what follows from it. listed are the hosts of host_worker.
// With force no removal is held back.
func (p plan) next(answer []Instance, listed []hosts.Host, force bool) (plan, step) {
	var s step
	in := make(map[hosts.Host]bool, len(listed))
	for _, h := range listed {
		in[h.Key()] = true
	}
	now := maps.Clone(p.known)
	if now == nil {
		now = make(map[hosts.Host]known)
	}
	named := make(map[hosts.Host]bool, len(answer))
	for _, i := range answer {
		key := i.Host.Key()
		k := now[key]
		named[key] = true
		k.missing, k.word = 0, i.Word
		switch i.State {
		case Usable:
			switch old := k.host; {
			case !k.usable && !in[key]:
				s.edit.Added = append(s.edit.Added, i.Host)
			case k.usable && in[key] && (old.Slots != i.Host.Slots || !old.SameLimits(i.Host)):
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
		now[key] = k
	}
	for key, k := range now {
		if named[key] {
			continue
		}
		k.missing++
		if now[key] = k; k.missing < missingAnswers {
			continue
		}
		if !in[key] {
			delete(now, key)
			continue
		}
		k.usable, k.leaves = false, true
		now[key] = k
	}
	var leave []Instance
	for _, h := range listed {
		k, ok := now[h.Key()]
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
	if !force && 2*len(leave) > s.managed || len(leave) == len(listed) && len(s.edit.Added) == 0 { // a job has at least one host
		s.held = leave
	} else {
		for _, i := range leave {
			s.edit.Removed = append(s.edit.Removed, i.Host)
		}
	}
	return plan{now}, s
}
