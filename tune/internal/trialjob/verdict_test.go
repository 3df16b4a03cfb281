package trialjob

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/tune/internal/nodes"
	"github.com/paragon-train/paragon/tune/internal/remote"
	"github.com/paragon-train/paragon/tune/internal/slots"
	"github.com/paragon-train/paragon/tune/jobs"
)

// endedTrial is a job on nodes that nobody knows, whose processes have ended.
func endedTrial(t *testing.T, workers int, alone bool) *trial {
	t.Helper()
	x := &trial{runner: &Runner{Nodes: &nodes.Set{}}, settings: &Settings{NoServers: alone, Logger: slog.New(slog.DiscardHandler)},
		folder: t.TempDir(), session: &remote.Session{}}
	x.Resources = jobs.Resources{Hosts: 1, Slots: workers}
	x.Grant = &slots.Grant{Parts: []slots.Part{{Node: nodes.LocalName}}}
	x.out = newOutput(outputConfig{folder: x.folder, alone: alone})
	t.Cleanup(func() { _ = x.out.close() })
	return x
}

// classOf is the class of an attempt's error; "": it has none.
func classOf(err error) Class {
	if e, ok := errors.AsType[*Failed](err); ok {
		return e.Class
	}
	return ""
}

// A verdict follows from the codes of launch's result, whatever its sentences say.
func TestTheVerdictOnAJobIsThatOfItsResult(t *testing.T) {
	blamed := func(cause control.Cause, last string) *control.Result {
		return &control.Result{ExitCode: 3, Phase: control.Running, Processes: []control.ProcessEnd{},
			Failure: &control.Failure{Code: control.ProcessFailed, Role: control.Worker, Rank: 1, Host: "d1", Cause: cause},
			Culprit: &control.ProcessEnd{Process: 4, Role: control.Worker, Rank: 1, Host: "d1", Fate: control.FateEnded, Cause: cause, LastLine: last, HostLost: cause.Kind == control.CauseMachine}}
	}
	failed := func(f control.Failure) *control.Result {
		return &control.Result{ExitCode: 1, Phase: control.Forming, Processes: []control.ProcessEnd{}, Failure: &f}
	}
	exited, killed := control.Cause{Kind: control.CauseExit, Exit: 3}, control.Cause{Kind: control.CauseSignal, Signal: int(syscall.SIGKILL)}
	lost := blamed(control.Cause{Kind: control.CauseMachine, Text: "connection to d1 lost"}, "")
	lost.LostHosts = []control.LostHost{{Host: "d1", Reason: "connection to d1 lost"}}
	unreached := func(hosts ...control.LostHost) *control.Result {
		r := failed(control.Failure{Code: control.NotStarted, Rank: -1, Text: "the job was not started:\nlaunch: host d1: Connection refused"})
		r.Phase, r.LostHosts = control.Starting, hosts
		return r
	}
	usage := control.Cause{Kind: control.CauseUsage, Exit: 2, Text: "flag provided but not defined: -rate"}
	final := blamed(usage, "see -help")
	final.Failure.Code = control.NodeFinal
	refused := control.LostHost{Host: "d1", Reason: "host d1: Connection refused", Unreached: true}
	for _, tc := range []struct {
		name   string
		result *control.Result
		exit   process.Exit
		said   string // by a process
		launch string // launch's message
		class  Class
		want   string
	}{
		{"a program's error", blamed(exited, "no data"), process.Exit{Code: 3}, "", "", UserCode, "worker 1 on d1 failed: exit 3: no data"},
		{"a program that speaks of a lost host", blamed(exited, "connection to db.local lost"), process.Exit{Code: 3}, "connection to d1 lost", "", UserCode, "worker 1 on d1 failed: exit 3"},
		{"killed", blamed(killed, ""), process.Exit{Code: 137}, "", "launch: the machine may have run out of memory", NodeLost, "a process was killed: worker 1 on d1 failed: signal 9 (killed)"},
		{"a shell's child was killed", blamed(control.Cause{Kind: control.CauseExit, Exit: 137}, ""), process.Exit{Code: 137}, "", "", NodeLost, "a process was killed"},
		{"a lost host", lost, process.Exit{Code: 255}, "", "", NodeLost, "lost host d1: connection to d1 lost"},
		{"a host that was not reached", unreached(refused), process.Exit{Code: 1}, "", "", HostUnreachable, "lost host d1: Connection refused"},
		{"a host that did not get the folder", unreached(refused, control.LostHost{Host: "d2", Reason: "no space left"}), process.Exit{Code: 1}, "", "", NodeLost, "lost host d2: no space left"},
		{"out of memory", blamed(exited, ""), process.Exit{Code: 3}, "fatal error: runtime: out of memory", "", OutOfMemory, "exit 3"},
		{"silence", failed(control.Failure{Code: control.NodeLost, Role: control.Worker, Host: "d1", Cause: control.Cause{Kind: control.CauseSilence, SilenceNS: 1e9}}), process.Exit{Code: 1}, "", "", NodeLost, "no heartbeat"},
		{"a server that ended", failed(control.Failure{Code: control.NoBackup, Role: control.Server, Host: "d1", Cause: exited, Text: "its shards are nowhere else"}), process.Exit{Code: 1}, "", "", UserCode, "nowhere else"},
		{"not all came", failed(control.Failure{Code: control.StartTimeout, Rank: -1, WaitedNS: 1e9, Waiting: []string{"worker 1"}}), process.Exit{Code: 1}, "", "", NodeLost, "after 1s still waiting for worker 1"},
		{"stopped from outside", failed(control.Failure{Code: control.StoppedByOthers, Rank: -1}), process.Exit{Code: 1}, "", "", NodeLost, "SIGTERM from outside"},
		{"could not start", failed(control.Failure{Code: control.NotStarted, Rank: -1, Text: "the job was not started:\nlaunch: start worker 0: there is no program /job/train here\nlaunch: start worker 1: there is no program /job/train here"}),
			process.Exit{Code: 1}, "", "", UserCode, "the job was not started: start worker 0: there is no program /job/train here; start worker 1: there"},
		{"a final error", final, process.Exit{Code: 2}, "out of memory", "", Final, "worker 1 on d1: flag provided but not defined: -rate (exit 2; no restart can mend this: change the command line or the setting)"},
		{"refused by launch", nil, process.Exit{Code: 2}, "", "launch: there is no flag -x\nSee launch --help.\n\n", UserCode, "exit 2: launch: there is no flag -x"},
		{"launch was killed", nil, process.Exit{Signal: syscall.SIGKILL}, "", "", NodeLost, "a process was killed: signal 9 (killed)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := endedTrial(t, 2, false)

			if tc.result != nil {
				text, err := control.EncodeResult(tc.result)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(x.folder, resultFile), text, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			x.out.line(control.Line{Role: control.Server, Stream: control.Stderr, Text: tc.said})
			if _, err := x.out.out.Stderr.Write([]byte(tc.launch)); err != nil {
				t.Fatal(err)
			}
			x.out.clues.last = ""
			err := x.verdict(t.Context(), tc.exit, nil)
			if classOf(err) != tc.class || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s with %q, in one line", err, tc.class, tc.want)
			}
		})
	}
}

// A process without servers says by its report that no retry can mend its error. That it was killed
// afterwards tells nothing of its error.
func TestTheVerdictOnAProcessIsThatOfItsReport(t *testing.T) {
	report := exitreport.Report{Cause: exitreport.NoResume, Text: "the checkpoint is of another model:\nparameter w has 3 values"}
	for _, tc := range []struct {
		exit  process.Exit
		class Class
		want  string
	}{
		{process.Exit{Code: 1, Report: report}, Final,
			"worker 0 on local: the checkpoint is of another model: parameter w has 3 values (exit 1; no restart can mend this: the checkpoint does not fit this run)"},
		{process.Exit{Signal: syscall.SIGKILL, Report: report}, NodeLost, "a process was killed"},
		{process.Exit{Code: 1}, UserCode, "exit 1"},
	} {
		x := endedTrial(t, 1, true)
		err := x.verdict(t.Context(), tc.exit, nil)
		if classOf(err) != tc.class || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: got %v, want %s with %q, in one line", tc.exit, err, tc.class, tc.want)
		}
	}
}

func TestAResultThatCannotBeReadIsNamed(t *testing.T) {
	x := endedTrial(t, 1, false)

	text, err := json.Marshal(map[string]any{"version": 99})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(x.folder, resultFile), text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := x.verdict(t.Context(), process.Exit{Code: 1}, nil); classOf(err) != UserCode || !strings.Contains(err.Error(), "exit 1; its result cannot be read: control: result: version 99") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if err := x.verdict(ctx, process.Exit{Code: 1}, nil); err == nil || err.Error() != "interrupted" {
		t.Errorf("after an interrupt: got %v", err)
	}
}
