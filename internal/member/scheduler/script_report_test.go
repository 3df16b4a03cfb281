package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// report is the launcher's next report.
func (s *script) report(command string, a args) *wire.Control {
	process := uint32(a.num("process", 0))
	switch command {
	case "starts":
		s.starts = append(s.starts, process)
	case "sites":
		s.hosts = nil
		for x := range strings.SplitSeq(a["hosts"], ",") {
			name, slots, _ := strings.Cut(x, "*")
			h := control.ObservedHost{Host: name, Listed: true, Servers: true, Connection: 1 + len(s.hosts)}
			h.Slots, _ = strconv.Atoi(slots)
			if name == a["taken"] {
				left := a.dur("left", time.Minute).Milliseconds()
				h.Notice = &control.HostNotice{LeftMillis: left, CheckpointMillis: left / 2}
			}
			s.hosts = append(s.hosts, h)
		}
	case "ended":
		x := s.observed(process)
		x.State, x.Seconds = control.StateEnded, 1
		x.Cause = control.Cause{Kind: control.CauseExit, Exit: int(a.num("exit", 0))}
		switch {
		case a["signal"] != "":
			x.Cause = control.Cause{Kind: control.CauseSignal, Signal: int(a.num("signal", 0))}
		case a["start"] != "":
			x.Cause = control.Cause{Kind: control.CauseStart, Exit: 127, Text: a["start"]}
		}
		s.ends = append(slices.DeleteFunc(s.ends, func(o control.ObservedProcess) bool { return o.Process == process }), x)
	}
	s.reports++
	m := &s.core.members
	o := &control.Observed{Number: s.reports, Revision: m.fleet.revision, Last: 10, Hosts: s.hosts}
	if !m.fleet.Adopted {
		o.Last = 0
	}
	o.Processes = slices.Clone(s.ends)
	add := func(number uint32) {
		if !slices.ContainsFunc(o.Processes, func(x control.ObservedProcess) bool { return x.Process == number }) && number > 0 {
			o.Processes = append(o.Processes, s.observed(number))
		}
	}
	for _, n := range m.roster.nodes {
		if n.life == living || n.life == removed {
			add(n.process)
		}
	}
	for _, number := range s.starts {
		add(number)
	}
	slices.SortFunc(o.Processes, func(a, b control.ObservedProcess) int { return cmp.Compare(a.Process, b.Process) })
	b, err := control.Request{Op: control.OpReport, Observed: o}.Encode()
	if err != nil {
		panic(err)
	}
	return &wire.Control{Request: string(b)}
}

// observed is a process that runs, as the launcher sees it.
func (s *script) observed(number uint32) control.ObservedProcess {
	x := control.ObservedProcess{Process: number, Role: control.Worker, Host: "d1", State: control.StateRunning}
	if p := s.core.members.fleet.of(number); p != nil {
		x.Role, x.Rank, x.Number, x.Host = p.Role, p.Rank, p.Number, p.Host
		return x
	}
	for _, n := range s.core.members.roster.nodes {
		if n.process == number {
			x.Role, x.Rank, x.Number, x.Host = roleName(n.Role), int(n.wantedRank), max(int(n.wantedRank), 0), n.Host
		}
	}
	return x
}

// wants says what is wanted.
func (s *script) wants() string {
	var b strings.Builder
	w := s.core.members.wanted()
	for _, p := range w.Processes {
		fmt.Fprintf(&b, "%d %s %d on %s: %s", p.Process, p.Role, p.Rank, p.Host, p.Goal)
		for _, x := range []struct {
			name string
			set  bool
		}{{"prepare", p.Prepare}, {"early", p.Early}, {"joined", p.Joined}, {fmt.Sprintf("attempt %d", p.Attempt), p.Attempt > 0},
			{fmt.Sprintf("in %s", p.Delay()), p.DelayMillis > 0}, {fmt.Sprintf("after %s", p.Grace()), p.GraceMillis > 0}, {string(p.Fate), p.Fate != ""}, {p.Note, p.Note != ""}, {p.Reason, p.Reason != ""}} {
			if x.set {
				b.WriteString(", " + x.name)
			}
		}
		b.WriteString("\n")
	}
	for _, h := range w.Hosts {
		fmt.Fprintf(&b, "host %s: %d\n", h.Host, h.Slots)
	}
	return b.String()
}
