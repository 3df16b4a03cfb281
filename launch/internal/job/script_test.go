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
	"github.com/paragon-train/paragon/internal/hosts/hosts"
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
//	says [slots= gpus=] {JSON}               answer id= [error= later=] [{JSON}]
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

type script struct {
	core *core
	now  time.Time
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
		if a["later"] != "" {
			x.err = fmt.Errorf("%w: %w: %s", control.ErrRefused, control.ErrLater, a["later"])
		}
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
	case "still":
		d, err := time.ParseDuration(a["for"])
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "result":
		return s.result()
	case "table":
		return endTable(s.core)
	default:
		t.Fatalf("command %q is not known", command)
	}
	return s.show(s.core.step(e, s.now))
}
