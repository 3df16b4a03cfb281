package job

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/gpus"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/process"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

var rewrite = flag.Bool("rewrite", false, "write what the core does into the scripts")

// TestScripts runs the scripts in testdata: commands with their arguments, "----", and all that the core does then. Processes, connections
// and requests are called by their numbers: the scheduler is process 1, servers and workers follow. Commands:
//
//	new [workers=2] [servers=1] [hosts=d1,d2 scheduler=d9 hostip=] [elastic=1 loss=shrink rejoin=2 backups=1 state=1 prepare=1 gpus=1 join=5m]
//	up [formed=1]                      all that a start needs happens; what the core does is not shown
//	connected id= [address= launcher= error=]      lost machine=       closed machine= [error=]
//	address [ip= error=]               announced [error=]
//	started process=                   notstarted process= error=
//	ended process= [exit= signal= error= lost=1 last= ago=]
//	listens process= at=               report process= {JSON}
//	says [slots= gpus=] {JSON}               answer id= [error=] [{JSON}]
//	edit [add= remove= slots=]         signal number=                  cancel
//	run for=                           time passes; the core is stepped whenever it wants
//	allclosed                          all connections are closed
//	result                             how the job ended
//	table                              who ended how
//
// In an argument _ stands for a space.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s script
			var out strings.Builder
			for i, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
				command, want, _ := strings.Cut(block, "\n----")
				got := ""
				for line := range strings.SplitSeq(command, "\n") {
					if !strings.HasPrefix(line, "#") {
						got += s.do(t, line)
					}
				}
				if got == "" {
					got = "nothing\n"
				}
				want = strings.TrimPrefix(want, "\n") + "\n"
				if !*rewrite && got != want {
					t.Errorf("%s: block %d\n%s\n---- got\n%s---- want\n%s", file, i+1, command, got, want)
				}
				fmt.Fprintf(&out, "%s\n----\n%s\n", command, got)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type script struct {
	core *core
	now  time.Time
}

type arguments map[string]string

func (a arguments) num(name string, other int) int {
	if a[name] == "" {
		return other
	}
	n, err := strconv.Atoi(a[name])
	if err != nil {
		panic(err)
	}
	return n
}

func (a arguments) or(name, other string) string {
	if v, ok := a[name]; ok {
		return v
	}
	return other
}

func (a arguments) err() error {
	if a["error"] == "" {
		return nil
	}
	return errors.New(a["error"])
}

func (a arguments) json(into any) {
	if a["json"] != "" {
		if err := json.Unmarshal([]byte(a["json"]), into); err != nil {
			panic(err)
		}
	}
}

func (a arguments) hosts(name string) (list []hosts.Host) {
	for h := range strings.SplitSeq(a[name], ",") {
		if h == "" {
			continue
		}
		h, slots, _ := strings.Cut(h, "*")
		host, err := hosts.ParseHost(h)
		if err != nil {
			panic(err)
		}
		host.Slots, _ = strconv.Atoi(slots)
		list = append(list, host)
	}
	return list
}

func parseArguments(line string) (command string, a arguments) {
	a = make(arguments)
	if i := strings.IndexByte(line, '{'); i >= 0 {
		line, a["json"] = line[:i], line[i:]
	}
	words := strings.Fields(line)
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = strings.ReplaceAll(v, "_", " ")
	}
	return words[0], a
}

// scriptSettings are those of a job.
func scriptSettings(a arguments) settings {
	place := a.hosts("hosts")
	on := func(i int) hosts.Host {
		if len(place) == 0 {
			return hosts.Local
		}
		return place[i%len(place)]
	}
	cfg := Config{Command: []string{"train"}, HostIP: a["hostip"], Elastic: Elastic{Enabled: a["elastic"] != "", OnWorkerLoss: a["loss"],
		Rejoin: a.num("rejoin", 0), Backups: a.num("backups", 0), State: a["state"], Control: newFakeScheduler().control}}
	if a["gpus"] != "" {
		cfg.GPUs = gpus.Request{Each: a.num("gpus", 1)}
	}
	if a["prepare"] != "" {
		cfg.Elastic.PrepareData = []string{"fetch"}
	}
	if a["join"] != "" {
		cfg.Elastic.JoinTimeout, _ = time.ParseDuration(a["join"])
	}
	if h := a.hosts("scheduler"); h != nil {
		cfg.SchedulerHost = &h[0]
	}
	for i := range a.num("workers", 2) {
		cfg.Workers = append(cfg.Workers, on(i))
	}
	for i := range a.num("servers", 1) {
		cfg.Servers = append(cfg.Servers, on(i))
	}
	if err := cfg.setDefaults(); err != nil {
		panic(err)
	}
	set := cfg.settings("j")
	set.Remote = len(place) > 0
	return set
}

func (s *script) do(t *testing.T, line string) string {
	command, a := parseArguments(line)
	var e event
	id, number := a.num("id", 0), uint32(a.num("process", 0))
	switch command {
	case "new":
		s.now = time.Unix(1000, 0)
		s.core = newCore(scriptSettings(a), s.now)
		return s.show(s.core.actions())
	case "up":
		s.up(a["formed"] != "")
		return ""
	case "connected":
		e = connected{id: id, address: a.or("address", "10.0.0.1"), launcher: a.or("launcher", "10.0.0.9"), err: a.err()}
	case "here":
		e = connected{id: id, address: "127.0.0.1", err: a.err()}
	case "lost":
		e = machineLost{a.num("machine", 0)}
	case "closed":
		e = machineClosed{a.num("machine", 0), a.err()}
	case "address":
		e = addressChosen{a["ip"], a.err()}
	case "announced":
		e = announced{a.err()}
	case "started":
		e = started{number, 100 + int(number)}
	case "notstarted":
		e = startFailed{number, a.err()}
	case "ended":
		x := ended{process: number, last: a["last"], exit: process.Exit{Code: a.num("exit", 0), Signal: syscall.Signal(a.num("signal", 0)), Err: a["error"], Lost: a["lost"] != ""}}
		ago, _ := time.ParseDuration(a["ago"])
		if n := s.core.find(number); n != nil {
			x.exit.Elapsed = s.now.Sub(n.started) - ago
		}
		e = x
	case "listens":
		e = listening{number, a["at"]}
	case "report":
		r, err := control.DecodeReport([]byte(a["json"]))
		if err != nil {
			t.Fatal(err)
		}
		e = reported{uint32(a.num("process", 1)), r}
	case "says":
		var x control.Event
		a.json(&x)
		x.Number, x.TimeNS = uint64(len(s.core.changes)+s.core.changesLeftOut+1), s.now.UnixNano()
		e = schedulerSaid{x, hosts.Host{Slots: a.num("slots", 0), GPUs: a.num("gpus", 0)}}
	case "answer":
		x := answered{id: id, err: a.err()}
		a.json(&x.done)
		e = x
	case "status":
		x := answered{id: id}
		a.json(&x.status)
		e = x
	case "edit":
		e = edited{hostworker.Change{Added: a.hosts("add"), Removed: a.hosts("remove"), Resized: a.hosts("slots")}}
	case "signal":
		e = signalled{syscall.Signal(a.num("number", 15))}
	case "cancel":
		e = cancelled{errors.New("context canceled")}
	case "allclosed":
		e = allClosed{}
	case "run":
		d, err := time.ParseDuration(a["for"])
		if err != nil {
			t.Fatal(err)
		}
		return s.run(d)
	case "result":
		return s.result()
	case "table":
		return endTable(s.core)
	default:
		t.Fatalf("command %q is not known", command)
	}
	return s.show(s.core.step(e, s.now))
}

// run lets time pass.
func (s *script) run(d time.Duration) string {
	end, begin, got := s.now.Add(d), s.now, ""
	for {
		next := s.core.next()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(s.now) {
			s.now = next
		}
		if did := s.show(s.core.step(nil, s.now)); did != "" {
			got += fmt.Sprintf("after %s\n%s", s.now.Sub(begin), did)
		}
	}
	s.now = end
	return got + s.show(s.core.step(nil, s.now))
}

// up lets all happen that a start needs, without an error.
func (s *script) up(formed bool) {
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
				e = append(e, listening{a.process, c.address + ":4711"})
			}
		}
		for _, x := range e {
			actions = append(actions, c.step(x, s.now)...)
		}
	}
	if c.stage != running {
		panic("the job does not run")
	}
	if formed {
		c.step(reported{1, control.Report{Running: true}}, s.now)
	}
}

// scriptActions are the first actions of a core, which new has shown: connections.
func scriptActions(c *core) (actions []action) {
	for _, id := range sortedKeys(c.connections) {
		k := c.connections[id]
		if k.key == "" {
			actions = append(actions, connect{id, nil})
		} else {
			actions = append(actions, connect{id, &k.host})
		}
	}
	return actions
}

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
	if text := s.core.explain(); text != "" && err == nil {
		fmt.Fprintf(&b, "\n%s", text)
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
	}
	return b.String()
}

// name is how a process is called in scripts.
func (s *script) name(process uint32) string {
	if n := s.core.find(process); n != nil {
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
	case closeMachine:
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
		b, err := a.Request.Encode()
		if err != nil {
			panic(err)
		}
		text := fmt.Sprintf("ask %d: %s", a.id, strings.TrimPrefix(string(b), `{"version":1,`))
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
