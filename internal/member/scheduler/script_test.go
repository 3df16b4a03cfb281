package scheduler

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/wire"
)

var rewrite = flag.Bool("rewrite", false, "write what the core says into the scripts")

// TestScripts runs the scripts in testdata: a command with its arguments, "----", and all that the
// core must say to it. A request is numbered by its order in the script; #n is the answer to
// request n, which may come much later. Commands:
//
//	new workers= servers= [lease= start= patience= hosts=worker/1/d2,... elastic=1 loss=shrink min= max= join= rejoin= backups=1]
//	register role= [node= rank= host= addr= nonce= workers= servers= job= pid= process= joining=1]
//	ready node= [wait=]                arrive node= change= [steps= epoch= step= used= stop= earlier=count,... resumed=count,... cut=used,... wait=]
//	counted node= lost= [examples=]    control {JSON}                 askleave node= [reason=]
//	stopped node= [steps= reason=]
//	watch node= revision= [wait=]      heartbeat node= [step=]        leave node= [failed=reason]
//	barrier node= name= [wait= gen=]   signal node= name= [value=]             await node= name= [wait=]
//	declare node= name= [size= rows= rowlen= rule=average whole= gen=]
//	adapts node= {JSON}                a heartbeat with an adaptation
//	gone request=                      whoever made it is gone
//	ended process= [exit= signal= start=]   the launcher reports, besides what runs, that a process has ended
//	starts process=                    it reports that it starts a process that is wanted
//	sites hosts=d1*2,d2 [taken= left=] it reports the hosts on which processes may run, and one that is taken away
//	wants                              the processes that are wanted
//	run for=                           time passes; the core is stepped whenever it wants
//	sleep for=                         time passes and the scheduler does not run
//	unread for=                        time passes, and what came meanwhile is read by the commands before the next run
//	stalled for=                       time passes and the scheduler takes no requests
//	canresume                          what a job that was stopped with a checkpoint can go on from
//	restart                            the scheduler is killed and started again on its records
//
// After every command a core that is restored from the records is compared with the core.
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
						s.kept.check(t, s.set, s.core, line)
					}
				}
				if got == "" {
					got = "ok\n"
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
	core    *Core
	now     time.Time
	read    time.Time // requests that came later wait; zero: none does
	request uint64
	set     Settings
	kept    journalRecords

	// What the launcher reports.
	reports uint64
	ends    []control.ObservedProcess
	starts  []uint32
	hosts   []control.ObservedHost
}

type args map[string]string

// list is a list of numbers.
func (a args) list(name string) (list []uint64) {
	for f := range strings.SplitSeq(a[name], ",") {
		if n, err := strconv.ParseUint(f, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

func (a args) num(name string, other uint64) uint64 {
	if a[name] == "" {
		return other
	}
	n, err := strconv.ParseInt(a[name], 10, 64)
	if err != nil {
		panic(err)
	}
	return uint64(n)
}

func (a args) dur(name string, other time.Duration) time.Duration {
	if a[name] == "" {
		return other
	}
	d, err := time.ParseDuration(a[name])
	if err != nil {
		panic(err)
	}
	return d
}

func (a args) millis(name string, other time.Duration) uint32 {
	return uint32(a.dur(name, other) / time.Millisecond)
}

func (a args) or(name, other string) string {
	if a[name] == "" {
		return other
	}
	return a[name]
}

func roleOf(name string) uint8 {
	switch name {
	case "server":
		return wire.RoleServer
	case "worker":
		return wire.RoleWorker
	}
	return 9
}

func (s *script) do(t *testing.T, line string) string {
	words := strings.Fields(line)
	a := make(args)
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = strings.ReplaceAll(v, "_", " ")
	}
	var m wire.Message
	switch words[0] {
	case "new":
		s.set = Settings{Job: "j", Workers: int(a.num("workers", 1)), Servers: int(a.num("servers", 1)),
			Heartbeat: time.Second, Lease: a.dur("lease", 10*time.Second), StartTimeout: a.dur("start", 5*time.Minute), Patience: a.dur("patience", 50*time.Second), Hosts: Hosts{}}
		for p := range strings.SplitSeq(a["hosts"], ",") {
			if f := strings.Split(p, "/"); len(f) == 3 {
				rank, _ := strconv.Atoi(f[1])
				s.set.Hosts[Place{roleOf(f[0]), rank}] = f[2]
			}
		}
		s.set.Elastic = cluster.Elastic{Enabled: a["elastic"] != "", OnWorkerLoss: cluster.LossPolicy(a["loss"]), MinWorkers: int(a.num("min", 0)),
			MaxWorkers: int(a.num("max", 0)), JoinTimeout: a.dur("join", 0), Rejoin: int(a.num("restarts", 0)), RejoinTimeout: a.dur("rejoin", 0), Backups: int(a.num("backups", 0)), AdaptWorkers: a["adapt"] != ""}
		s.now = time.Unix(1000, 0)
		s.ends, s.starts, s.hosts, s.reports = nil, nil, nil, 0
		s.core, s.request, s.kept = NewCore(s.set, s.now), 0, journalRecords{}
		return ""
	case "canresume":
		if x := s.core.Stopped(); x != nil {
			return fmt.Sprintf("from step %d %s\n", x.Steps, x.Reason)
		}
		return "nobody told\n"
	case "restart":
		core, err := Restore(s.set, s.now, s.kept.list())
		if err != nil {
			return err.Error() + "\n"
		}
		s.core = core
		return ""
	case "ready":
		m = &wire.Ready{Node: a.num("node", 1), WaitMillis: a.millis("wait", time.Minute)}
	case "arrive":
		r := &wire.Arrive{Generation: s.core.members.job.generation, Node: a.num("node", 1), Change: a.num("change", 1), Steps: a.num("steps", 0), Epoch: a.num("epoch", 0),
			Step: a.num("step", 0), Used: a.num("used", 0), Stop: a["stop"] != "", Earlier: a.list("earlier"), Resumed: a.list("resumed"), Order: a["order"], WaitMillis: a.millis("wait", time.Minute)}
		if used := a.list("cut"); used != nil {
			r.Cuts = []wire.Cut{{Parts: uint32(len(used)), Used: used}}
		}
		m = r
	case "stopped":
		m = &wire.Stopped{Node: a.num("node", 1), Steps: a.num("steps", 0), Reason: a["reason"]}
	case "askleave":
		m = &wire.AskLeave{Node: a.num("node", 1), Reason: a["reason"]}
	case "counted":
		m = &wire.LostExamples{Node: a.num("node", 1), Lost: a.num("lost", 0), Examples: a.num("examples", math.MaxUint64)}
	case "ended", "starts", "sites":
		m = s.report(words[0], a)
	case "wants":
		return s.wants()
	case "control":
		m = &wire.Control{Request: strings.TrimPrefix(line, "control ")}
	case "run":
		end := s.now.Add(a.dur("for", 0))
		got := ""
		s.read = time.Time{}
		for {
			next := s.core.Next()
			if next.IsZero() || next.After(end) {
				break
			}
			s.now = next
			got += s.step(Event{At: next})
		}
		s.now = end
		return got + s.step(Event{At: end})
	case "sleep":
		s.now = s.now.Add(a.dur("for", 0))
		return s.step(Event{At: s.now})
	case "unread":
		s.read = s.now
		s.now = s.now.Add(a.dur("for", 0))
		return s.step(Event{At: s.now})
	case "stalled":
		d := a.dur("for", 0)
		s.now = s.now.Add(d)
		return s.step(Event{At: s.now, Stalled: d})
	case "gone":
		return s.step(Event{At: s.now, Request: a.num("request", 0)})
	case "settled":
		return fmt.Sprintln(s.core.Settled())
	case "register":
		m = &wire.Register{Node: a.num("node", 0), Role: roleOf(a["role"]), Rank: int32(a.num("rank", 1<<64-1)),
			Workers: uint32(a.num("workers", uint64(s.set.Workers))), Servers: uint32(a.num("servers", uint64(s.set.Servers))),
			PID: uint32(a.num("pid", 100)), Process: uint32(a.num("process", 0)), Nonce: a.num("nonce", 1000+s.request), Job: a.or("job", "j"), Host: a.or("host", "d1"),
			Addr: a.or("addr", "d1:9000"), Joining: a["joining"] != ""}
	case "watch":
		m = &wire.Watch{Node: a.num("node", 1), Revision: a.num("revision", 0), WaitMillis: a.millis("wait", 30*time.Second)}
	case "adapts": // node= {JSON}: a heartbeat
		_, text, _ := strings.Cut(line, "{")
		m = &wire.Heartbeat{Node: a.num("node", 1), Generation: 1, Adaptation: "{" + text}
	case "heartbeat":
		m = &wire.Heartbeat{Node: a.num("node", 1), Generation: a.num("gen", 1), Step: a.num("step", 0), Call: a["call"], WaitsFor: a["for"],
			WaitsMillis: uint32(a.num("waits", 0))}
	case "leave":
		m = &wire.Leave{Node: a.num("node", 1), OK: a["failed"] == "", Reason: a["failed"]}
	case "barrier":
		m = &wire.Barrier{Generation: a.num("gen", 1), Node: a.num("node", 1), Name: a["name"], WaitMillis: a.millis("wait", time.Minute)}
	case "signal":
		m = &wire.Signal{Node: a.num("node", 1), Name: a["name"], Value: a["value"]}
	case "await":
		m = &wire.Await{Node: a.num("node", 1), Name: a["name"], WaitMillis: a.millis("wait", time.Minute)}
	case "push":
		m = &wire.Push{}
	case "declare":
		d := &wire.Declare{Generation: a.num("gen", 1), Node: a.num("node", 1), Name: a["name"], Form: wire.FormDense,
			Rule: wire.RuleOptimizer, Size: a.num("size", 0), Whole: a["whole"] != ""}
		if a["rows"] != "" {
			d.Form, d.RowLen = wire.FormRows, a.num("rowlen", 1)
			d.Size = a.num("rows", 0) * d.RowLen
		}
		if a["rule"] == "average" {
			d.Rule = wire.RuleAverage
		}
		m = d
	default:
		t.Fatalf("command %q is not known", words[0])
	}
	s.request++
	return s.step(Event{At: s.now, Request: s.request, Message: m})
}

func (s *script) step(e Event) string {
	var b strings.Builder
	e.Read = s.read
	out := s.core.Step(e)
	s.kept.take(out)
	for _, n := range out.Notes {
		fmt.Fprintln(&b, n)
	}
	for _, n := range out.Warnings {
		fmt.Fprintln(&b, "warning:", n)
	}
	for _, a := range out.Answers {
		fmt.Fprintf(&b, "#%d %s\n", a.Request, show(a.Message))
	}
	return b.String()
}

var phases = []string{"", "forming", "running", "finished", "failed"}

// serversOf counts the servers of a membership that may be complete.
func serversOf(m *wire.Membership) (n int) {
	if m.Placement == 0 {
		return int(m.Servers) // they are as they were
	}
	for i := range m.Nodes {
		if m.Nodes[i].Role == wire.RoleServer {
			n++
		}
	}
	return n
}

func show(m wire.Message) string {
	switch m := m.(type) {
	case *wire.Ack, *wire.Beat:
		return "ack"
	case *wire.Signalled:
		return fmt.Sprintf("signalled %q", m.Value)
	case *wire.Nack:
		return fmt.Sprintf("%v: %s", m.Code, m.Text)
	case *wire.Registered:
		return fmt.Sprintf("registered as node %d", m.Node)
	case *wire.Membership:
		s := fmt.Sprintf("%s, generation %d, revision %d", phases[m.Phase], m.Generation, m.Revision)
		if m.Reason != "" {
			s += ": " + m.Reason
		}
		if len(m.Waiting) > 0 {
			s += ", waiting for " + strings.Join(m.Waiting, ", ")
		}
		for _, n := range m.Nodes {
			s += fmt.Sprintf("\n   %s %d is node %d on %s", roleName(n.Role), n.Rank, n.Node, n.Host)
			if n.State != wire.MemberCounts {
				s += ", " + memberStates[n.State]
			}
		}
		if m.Stopping {
			s += "\n   the job stops with a checkpoint"
		}
		if m.Change != 0 {
			s += fmt.Sprintf("\n   change %d is pending", m.Change)
		}
		if len(m.LostToCount) > 0 {
			s += fmt.Sprintf("\n   to lossReports: %d", m.LostToCount)
		}
		if m.Servers != uint32(serversOf(m)) {
			s += fmt.Sprintf("\n   of %d ranks of servers", m.Servers)
		}
		if m.Division.Steps > 0 {
			s += fmt.Sprintf("\n   epoch %d, step %d: %s", m.Division.Epoch, m.Division.Steps, cuts(m.Division.Cuts))
			if m.Division.Order != "" {
				s += ", in the order " + m.Division.Order
			}
		}
		return s
	case *wire.Report:
		return m.Answer
	case *wire.KeyPlan:
		s := fmt.Sprintf("key %d", m.Key)
		for i, p := range m.Shards {
			if i == 8 && len(m.Shards) > 10 {
				s += fmt.Sprintf("\n   and %d more", len(m.Shards)-i)
				break
			}
			s += fmt.Sprintf("\n   server %d: %d values at %d", p.Server, p.Length, p.Offset)
		}
		return s
	}
	return fmt.Sprint(m)
}
