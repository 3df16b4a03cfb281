package job

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/launch/internal/hostworker"
)

var rewrite = flag.Bool("rewrite", false, "write what the core does into the scripts")

// TestScripts runs the scripts in testdata: commands with their arguments, "----", and all that the
// core does then. Processes, connections and requests are called by their numbers: the scheduler is
// process 1, servers and workers follow. Commands:
//
//	new [workers=2] [servers=1] [hosts=d1,d2 scheduler=d9 hostip=] [elastic=1 loss=shrink rejoin=2 backups=1 state=1 prepare=1 gpus=1 join=5m slots=d1*2,d2*1 patience=4s min=1 max=4 adapt=1]
//	up [formed=1]                      all that a start needs happens; what the core does is not shown
//	connected id= [address= launcher= error=]      lost machine=       closed machine= [error=]
//	notice machine= [code=preempted left= text= withdrawn=1]
//	address [ip= error=]               announced [error=]
//	started process=                   notstarted process= error=
//	ended process= [exit= signal= error= lost=1 last= ago= final=usage words= steps=]
//	listens process= at=               report process= {JSON}
//	answer id= [error=]                of a request that is not the scheduler's to answer
//	add host= [slots= gpus= cpus=]     remove host=      scale workers= [place=d1*2,d2]     addserver [host=]     removeserver rank=     ask the scheduler
//	joins process=                     its node registers, is ready, and all arrive at the change
//	registers process=                 ready process=    arrive       the same in steps; arrive is of all
//	leaves process= [failed=]          its node leaves, or says what went wrong
//	asksleave process= [reason=]       wish workers= [reason=]
//	away                               the scheduler does not answer
//	back                               it answers again
//	restarted                          it is started again on its journal, and answers
//	mute, heard                        its answers do not reach the launcher, and come at last
//	edit [add= remove= slots=]         signal number=                  cancel
//	run for=                           time passes; the core is stepped whenever it wants
//	still for=                         time passes, and the launcher does not run
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

// findProcess is the node of a process, also of one that prepares a host.
func findProcess(c *core, process uint32) *Node {
	if n := c.runner.preparing(process); n != nil {
		return n
	}
	return c.procs.find(process)
}

type script struct {
	core   *core
	now    time.Time
	member *membership
	owed   []event // answers of the scheduler
	mute   bool    // they do not come yet
	stops  bool    // it was told that the job stops with a checkpoint
}

func (s *script) do(t *testing.T, line string) string {
	command, a := parseArguments(line)
	var e event
	id, number := a.num("id", 0), uint32(a.num("process", 0))
	switch command {
	case "new":
		s.now = time.Unix(1000, 0)
		set := scriptSettings(a)
		s.stops, s.owed, s.mute = false, nil, false
		s.core, s.member = newCore(set, s.now), newMembership(set, s.now)
		return s.show(s.core.out.take())
	case "up":
		return s.up(a["formed"] != "")
	case "connected":
		if ids := sortedKeys(s.core.machines.calls); id == 0 && len(ids) > 0 {
			id = ids[0]
		}
		e = connected{id: id, address: a.or("address", "10.0.0.1"), launcher: a.or("launcher", "10.0.0.9"), err: a.err()}
	case "here":
		e = connected{id: id, address: "127.0.0.1", err: a.err()}
	case "lost":
		e = machineLost{a.num("machine", 0)}
	case "closed":
		e = machineClosed{a.num("machine", 0), a.err()}
	case "notice":
		left, _ := time.ParseDuration(a["left"])
		e = noticed{a.num("machine", 0), agent.Notice{Code: a.or("code", agent.NoticePreempted), Text: a["text"], Left: left, Withdrawn: a["withdrawn"] != ""}}
	case "address":
		e = addressChosen{a["ip"], a.err()}
	case "announced":
		e = announced{a.err()}
	case "started":
		e = started{number, 100 + int(number)}
	case "notstarted":
		e = startFailed{number, a.err()}
	case "ended":
		x := ended{process: number, last: a["last"], exit: process.Exit{Code: a.num("exit", 0), Signal: syscall.Signal(a.num("signal", 0)), Err: a["error"], Lost: a["lost"] != "",
			Report: exitreport.Report{Cause: exitreport.Cause(strings.ReplaceAll(a["final"], " ", "_")), Text: a["words"], Steps: uint64(a.num("steps", 0))}}}
		ago, _ := time.ParseDuration(a["ago"])
		if n := findProcess(s.core, number); n != nil {
			x.exit.Elapsed = s.now.Sub(n.started) - ago
		}
		e = x
		if n := findProcess(s.core, number); n != nil && n.Role == roleScheduler {
			s.member.away = true
		} else if n != nil && x.exit.OK() && n.Role == roleWorker && a["unsaid"] == "" {
			s.member.leave(s.now, number, "") // as a worker does that is done
		}
	case "listens":
		e = listening{number, a["at"]}
		s.member.back()
	case "report":
		r, err := control.DecodeReport([]byte(a["json"]))
		if err != nil {
			t.Fatal(err)
		}
		e = reported{uint32(a.num("process", 1)), r}
	case "answer":
		e = answered{id: id, err: a.err()}
	case "add", "remove", "scale", "addserver", "removeserver", "forms", "joins", "registers", "ready", "arrive", "leaves", "asksleave", "wish", "away", "back", "restarted", "mute", "heard":
		return s.doMember(command, a, number)
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
	case "still":
		d, err := time.ParseDuration(a["for"])
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "result":
		return s.result()
	case "table":
		r := s.core.result()
		return endTable(&r)
	default:
		t.Fatalf("command %q is not known", command)
	}
	return s.step(e)
}
