package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
)

// run lets time pass.
func (s *script) run(d time.Duration) string {
	end, begin, got := s.now.Add(d), s.now, ""
	for {
		next := s.core.next()
		if m := s.member.core.Next(); !s.member.away && !m.IsZero() && (next.IsZero() || m.Before(next)) {
			next = m
		}
		if d := s.core.set.HostTimeout; d > 0 && (next.IsZero() || next.After(s.now.Add(d/4))) { // as the shell looks
			next = s.now.Add(d / 4)
		}
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(s.now) {
			s.now = next
		}
		s.member.pass(s.now)
		if did := s.step(nil); did != "" {
			got += fmt.Sprintf("after %s\n%s", s.now.Sub(begin), did)
		}
	}
	s.now = end
	return got + s.step(nil)
}

// up lets all happen that a start needs, without an error.
func (s *script) up(formed bool) string {
	c := s.core
	actions := slices.Clone(scriptActions(c))
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		var e []event
		switch a := a.(type) {
		case connect:
			x := connected{id: a.id, address: fmt.Sprintf("10.0.0.%d", a.id), launcher: "10.0.0.9"}
			if a.host == nil {
				x.address, x.launcher = "127.0.0.1", ""
			}
			e = []event{x}
		case chooseAddress:
			e = []event{addressChosen{address: "10.0.0.9"}}
			if !c.set.Remote {
				e = []event{addressChosen{address: "127.0.0.1"}}
			}
		case announce:
			e = []event{announced{}}
		case startProcess:
			e = []event{started{a.process, 100 + int(a.process)}}
			if a.role == roleScheduler {
				e = append(e, listening{a.process, c.scheduler.address + ":4711"})
			}
		}
		for _, x := range e {
			actions = append(actions, c.step(x, s.now)...)
		}
	}
	if c.stage != running {
		panic("the job is not running")
	}
	if !formed {
		return ""
	}
	for _, n := range c.procs.nodes {
		if n.Role != roleScheduler {
			s.registers(n.process)
		}
	}
	s.show(c.step(reported{1, control.Report{Running: true}}, s.now))
	s.settle() // the first report
	return ""
}

// scriptActions are the first actions of a core, which new has shown: connections.
func scriptActions(c *core) (actions []action) {
	for _, id := range sortedKeys(c.machines.calls) {
		k := c.machines.calls[id]
		if k.key == "" {
			actions = append(actions, connect{id, nil})
		} else {
			actions = append(actions, connect{id, &k.host})
		}
	}
	return actions
}
