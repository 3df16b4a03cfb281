package job

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
)

func (s *script) result() string {
	r := s.core.result()
	var err error
	if s.core.start.err != nil {
		err = s.core.start.err
	}
	x := r.Report(err, r.Code)
	var b strings.Builder
	fmt.Fprintf(&b, "exit code %d, %s", x.ExitCode, x.Phase)
	if x.Failure != nil {
		fmt.Fprintf(&b, ", %s: %s", x.Failure.Code, x.Failure)
	}
	if x.Culprit != nil {
		fmt.Fprintf(&b, ", process %d is to blame", x.Culprit.Process)
	}
	for _, h := range x.LostHosts {
		fmt.Fprintf(&b, "\nlost %s: %s", h.Host, h.Reason)
	}
	if r.text != "" && err == nil {
		fmt.Fprintf(&b, "\n%s", r.text)
	}
	for _, p := range x.Processes {
		fmt.Fprintf(&b, "\n   %d %s %d on %s: %s", p.Process, p.Role, p.Rank, p.Host, p.Fate)
		if p.Cause.Kind != "" {
			fmt.Fprintf(&b, ", %s", p.Cause)
		}
		if p.HostLost {
			b.WriteString(", with its host")
		}
	}
	return b.String() + "\n"
}

func (s *script) show(actions []action) string {
	var b strings.Builder
	for _, a := range actions {
		if text := s.text(a); text != "" {
			fmt.Fprintln(&b, text)
		}
		if a, ok := a.(ask); ok {
			s.ask(a)
		}
	}
	return b.String()
}

// name is how a process is called in scripts.
func (s *script) name(process uint32) string {
	if n := findProcess(s.core, process); n != nil {
		return fmt.Sprintf("%d (%s)", process, n.Name())
	}
	return fmt.Sprint(process)
}

func (s *script) text(a action) string {
	switch a := a.(type) {
	case connect:
		if a.host == nil {
			return fmt.Sprintf("connect %d: here", a.id)
		}
		return fmt.Sprintf("connect %d: %s", a.id, a.host)
	case checkHost:
		return fmt.Sprintf("check %d: is %s this machine?", a.id, a.host)
	case cancelCall:
		return fmt.Sprintf("cancel %d: %s", a.id, a.why)
	case cancelAsk:
		return "" // the watch is always under way
	case closeMachine:
		if a.dismiss {
			return fmt.Sprintf("close machine %d, and dismiss its host", a.machine)
		}
		return fmt.Sprintf("close machine %d", a.machine)
	case chooseAddress:
		return fmt.Sprintf("choose an address for a scheduler on machine %d", a.scheduler)
	case announce:
		return fmt.Sprintf("announce %s:%s", a.address, a.port)
	case open:
		return ""
	case rename:
		return fmt.Sprintf("rename %d: %s", a.process, a.source.Name)
	case startProcess:
		text := fmt.Sprintf("start %d: %s on machine %d (%s), rank %d, number %d, sharers %d", a.process, a.name, a.machine, a.hostName, a.rank, a.number, a.sharers)
		if a.joins {
			text += ", joins"
		}
		if a.gpus != nil {
			text += fmt.Sprintf(", GPU slot %d of %d", a.gpus.Slot, a.gpus.Workers)
			if a.gpus.Limit != 0 {
				text += fmt.Sprintf(" within gpus=%d", a.gpus.Limit)
			}
		}
		if a.hosts != "" {
			text += ", expects " + a.hosts
		}
		if a.launcherDir {
			text += ", in the launcher's folder"
		}
		if a.role != rolePrepare {
			text += fmt.Sprintf(", scheduler at %s:%s", a.address, a.port)
		}
		return text
	case cancelStart:
		return fmt.Sprintf("cancel the start of %s: %s", s.name(a.process), a.why)
	case signalProcess:
		return fmt.Sprintf("signal %s: %s", s.name(a.process), a.signal)
	case ask:
		if a.Op == control.OpWanted || a.Op == control.OpReport {
			return ""
		}
		b, err := a.Request.Encode()
		if err != nil {
			panic(err)
		}
		text := fmt.Sprintf("ask: %s", strings.TrimPrefix(string(b), fmt.Sprintf(`{"version":%d,`, control.Version)))
		if a.limit > 0 {
			text += fmt.Sprintf(" for %s", a.limit)
		}
		return text
	case follow:
		return "follow"
	case listHost:
		if a.named {
			return fmt.Sprintf("list %s", a.host)
		}
		return fmt.Sprintf("do not list %s", a.host)
	case logHost:
		return fmt.Sprintf("log %s %s", a.action, a.host)
	case tell:
		return fmt.Sprintf("%s: %s", map[slog.Level]string{slog.LevelInfo: "info", slog.LevelWarn: "warning", slog.LevelError: "error"}[a.level], a.text)
	case announceWorker:
		return fmt.Sprintf("announce a worker on %s", a.host)
	case holdOutput:
		return "hold the output"
	case showStart:
		return "show who runs where"
	case closeAll:
		return "close all"
	case end:
		return "end"
	}
	panic(fmt.Sprintf("%T", a))
}
