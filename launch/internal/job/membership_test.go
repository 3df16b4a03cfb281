package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A membership is a scheduler's core, and nodes that do what the nodes of a job do: they register,
// get ready, arrive at changes and leave.
type membership struct {
	core     *scheduler.Core
	set      scheduler.Settings
	kept     map[string][]byte
	requests uint64
	waits    map[uint64]func(m wire.Message)
	nodes    map[uint32]uint64 // of processes
	host     map[uint32]string
	order    []uint32
	notes    []string
	away     bool // it does not answer
	held     []func()
}

func newMembership(set settings, now time.Time) *membership {
	e := cluster.Elastic{Enabled: set.Enabled, OnWorkerLoss: cluster.LossPolicy(set.OnWorkerLoss), MinWorkers: set.MinWorkers, MaxWorkers: set.MaxWorkers,
		JoinTimeout: set.JoinTimeout, AdaptWorkers: set.AdaptWorkers, Rejoin: set.Rejoin, Backups: set.Backups}
	m := &membership{kept: make(map[string][]byte), waits: make(map[uint64]func(wire.Message)), nodes: make(map[uint32]uint64), host: make(map[uint32]string),
		set: scheduler.Settings{Job: "j", Workers: len(set.Workers), Servers: len(set.Servers), Heartbeat: time.Second, Lease: 10_000 * time.Hour,
			StartTimeout: 10_000 * time.Hour, Elastic: e}}
	m.core = scheduler.NewCore(m.set, now)
	return m
}

// restart starts the scheduler again on its journal.
func (m *membership) restart(now time.Time) {
	var records []scheduler.Record
	for key, value := range m.kept {
		records = append(records, scheduler.Record{Key: key, Value: value})
	}
	core, err := scheduler.Restore(m.set, now, records)
	if err != nil {
		panic(err)
	}
	m.core = core
	clear(m.waits)
}

func (m *membership) step(e scheduler.Event) {
	out := m.core.Step(e)
	for _, r := range out.Records {
		if r.Value == nil {
			delete(m.kept, r.Key)
		} else {
			m.kept[r.Key] = r.Value
		}
	}
	for _, n := range out.Warnings {
		m.notes = append(m.notes, n.Text)
	}
	for _, a := range out.Answers {
		if reply := m.waits[a.Request]; reply != nil {
			delete(m.waits, a.Request)
			reply(a.Message)
		}
	}
}

// ask puts a request. The answer may come much later.
func (m *membership) ask(now time.Time, message wire.Message, reply func(wire.Message)) {
	if m.away {
		m.held = append(m.held, func() { m.ask(now, message, reply) })
		return
	}
	m.requests++
	if reply != nil {
		m.waits[m.requests] = reply
	}
	m.step(scheduler.Event{At: now, Request: m.requests, Message: message})
}

// back lets the scheduler answer again.
func (m *membership) back() {
	held := m.held
	m.away, m.held = false, nil
	for _, f := range held {
		f()
	}
}

// control carries a request of the launcher or of a person.
func (m *membership) control(now time.Time, q control.Request, reply func(raw []byte, err error)) {
	b, err := q.Encode()
	if err != nil {
		reply(nil, err)
		return
	}
	m.ask(now, &wire.Control{Request: string(b)}, func(a wire.Message) {
		switch a := a.(type) {
		case *wire.Report:
			reply([]byte(a.Answer), nil)
		case *wire.Nack:
			reply(nil, errors.New(a.Text))
		}
	})
}

// people asks as a person does, and returns why it was refused.
func (m *membership) people(now time.Time, q control.Request) (text string) {
	m.control(now, q, func(raw []byte, err error) {
		var d control.Done
		if err == nil {
			err = json.Unmarshal(raw, &d)
		}
		text = d.Error
		if err != nil {
			text = err.Error()
		}
	})
	return text
}

// pass lets time pass.
func (m *membership) pass(now time.Time) {
	if !m.away {
		m.step(scheduler.Event{At: now})
	}
}

// register lets the node of a process register.
func (m *membership) register(now time.Time, x control.ObservedProcess, host string, joins bool) {
	r := &wire.Register{Role: wire.RoleWorker, Rank: int32(x.Rank), Workers: uint32(m.set.Workers), Servers: uint32(m.set.Servers), PID: 100 + x.Process, Process: x.Process,
		Nonce: uint64(x.Process), Job: "j", Host: host, Addr: fmt.Sprintf("%s:%d", host, 9000+x.Process), Joining: joins}
	if x.Role == roleServer {
		r.Role = wire.RoleServer
	} else if joins {
		r.Rank = -1
	}
	m.ask(now, r, func(a wire.Message) {
		switch a := a.(type) {
		case *wire.Registered:
			m.nodes[x.Process], m.host[x.Process] = a.Node, host
			m.order = append(m.order, x.Process)
		case *wire.Nack:
			m.notes = append(m.notes, "register: "+a.Text)
		}
	})
}

// ready lets the node of a process say that it is ready.
func (m *membership) ready(now time.Time, process uint32) {
	if id := m.nodes[process]; id != 0 {
		m.ask(now, &wire.Ready{Node: id, WaitMillis: 1 << 30}, nil)
	}
}

// members is the membership as its nodes see it; nil: nobody is there.
func (m *membership) members(now time.Time) (out *wire.Membership) {
	for _, process := range m.order {
		m.ask(now, &wire.Watch{Node: m.nodes[process]}, func(a wire.Message) {
			if a, ok := a.(*wire.Membership); ok {
				out = a
			}
		})
		if out != nil {
			return out
		}
	}
	return nil
}

// arrive lets all nodes arrive at the pending changes.
func (m *membership) arrive(now time.Time) {
	for range 4 {
		x := m.members(now)
		if x == nil || x.Change == 0 || m.away {
			return
		}
		for range 2 { // they are asked what they counted once all have arrived
			for _, n := range x.Nodes {
				switch {
				case n.Role == wire.RoleServer:
					for _, lost := range x.LostToCount {
						m.ask(now, &wire.LostExamples{Node: n.Node, Lost: lost, Placement: x.Placement}, nil)
					}
				case n.Counts():
					m.ask(now, &wire.Arrive{Generation: x.Generation, Node: n.Node, Change: x.Change, WaitMillis: 1 << 30}, nil)
				}
			}
			if x = m.members(now); x == nil {
				return
			}
		}
	}
}

// leave lets the node of a process leave; why says what went wrong there.
func (m *membership) leave(now time.Time, process uint32, why string) {
	if id := m.nodes[process]; id != 0 {
		m.ask(now, &wire.Leave{Node: id, OK: why == "", Reason: why}, nil)
	}
}

// counted lists the processes that count, by rank.
func (m *membership) counted(now time.Time) (list []uint32) {
	x := m.members(now)
	if x == nil {
		return nil
	}
	for _, n := range x.Nodes {
		for process, id := range m.nodes {
			if id == n.Node && n.Counts() && n.Role == wire.RoleWorker {
				list = append(list, process)
			}
		}
	}
	slices.Sort(list)
	return list
}

// leaveTime is how long the scheduler gives a process that was removed.
const leaveTime = 15 * time.Second
