package job

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// step lets something happen, and then all that the scheduler answers.
func (s *script) step(e event) string {
	got := s.show(s.core.step(e, s.now))
	return got + s.settle()
}

// settle lets the answers come that the scheduler has given.
func (s *script) settle() (got string) {
	for len(s.owed) > 0 && !s.mute {
		e := s.owed[0]
		s.owed = s.owed[1:]
		got += s.show(s.core.step(e, s.now))
	}
	if why, limit := s.member.core.Stopping(); why != "" && !s.stops {
		s.stops = true
		got += s.step(reported{1, control.Report{Stopping: &control.Stopping{Reason: why, LimitMillis: limit.Milliseconds()}}})
	}
	for _, n := range s.member.notes {
		got += fmt.Sprintf("scheduler: %s\n", n)
	}
	s.member.notes = nil
	return got
}

// doMember lets people and nodes do something.
func (s *script) doMember(command string, a arguments, process uint32) string {
	m := s.member
	refused := ""
	switch command {
	case "add":
		refused = m.people(s.now, control.Request{Op: control.OpAdd, Host: a["host"], Slots: a.num("slots", 0), GPUs: a.num("gpus", 0), CPUs: a.num("cpus", 0)})
	case "remove":
		refused = m.people(s.now, control.Request{Op: control.OpRemove, Host: a["host"]})
	case "scale":
		q := control.Request{Op: control.OpScale, Workers: a.num("workers", 0)}
		for _, h := range a.hosts("place") {
			q.Placement = append(q.Placement, control.WorkersOnHost{Host: h.String(), Workers: h.Slots})
		}
		refused = m.people(s.now, q)
	case "addserver":
		refused = m.people(s.now, control.Request{Op: control.OpAddServer, Host: a["host"]})
	case "removeserver":
		refused = m.people(s.now, control.Request{Op: control.OpRemoveServer, Rank: a.num("rank", 0)})
	case "forms":
		for _, n := range s.core.procs.nodes {
			if n.Role != roleScheduler && !n.ended && m.nodes[n.process] == 0 {
				s.registers(n.process)
			}
		}
		return s.step(reported{1, control.Report{Running: true}})
	case "joins":
		s.registers(process)
		m.ready(s.now, process)
		m.arrive(s.now)
	case "registers":
		s.registers(process)
	case "ready":
		m.ready(s.now, process)
	case "arrive":
		m.arrive(s.now)
	case "leaves":
		m.leave(s.now, process, a["failed"])
	case "asksleave":
		m.ask(s.now, &wire.AskLeave{Node: m.nodes[process], Reason: a["reason"]}, func(x wire.Message) {
			if x, ok := x.(*wire.Nack); ok {
				refused = x.Text
			}
		})
	case "wish":
		text, err := control.EncodeAdaptation(control.Adaptation{WishedWorkers: a.num("workers", 0), WishReason: a["reason"]})
		if err != nil {
			panic(err)
		}
		m.ask(s.now, &wire.Heartbeat{Node: m.nodes[m.counted(s.now)[0]], Generation: 1, Adaptation: text}, nil)
	case "away":
		m.away = true
	case "back":
		m.back()
	case "mute", "heard":
		s.mute = command == "mute"
	case "restarted":
		m.restart(s.now)
		m.back()
	}
	if refused != "" {
		refused = "refused: " + refused + "\n"
	}
	return refused + s.settle()
}

// registers lets the node of a process register.
func (s *script) registers(process uint32) {
	n := findProcess(s.core, process)
	if n == nil {
		s.member.notes = append(s.member.notes, fmt.Sprintf("there is no process %d", process))
		return
	}
	s.member.register(s.now, control.ObservedProcess{Process: process, Role: n.Role, Rank: n.Rank}, s.core.runner.hostName(n.host), n.joining || n.early)
}

// ask carries a request to the scheduler.
func (s *script) ask(a ask) {
	s.member.control(s.now, a.Request, func(raw []byte, err error) {
		e := answered{id: a.id, err: err}
		if into := control.Answer(&e.done); err == nil {
			if a.Op == control.OpWanted {
				into = &e.wanted
			}
			e.err = control.DecodeAnswer(raw, into)
		}
		if a.id != 0 {
			s.owed = append(s.owed, e)
		}
	})
}
