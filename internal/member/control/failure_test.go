package control

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each code has its sentence.
func TestFailuresInWords(t *testing.T) {
	worker := Failure{Role: Worker, Rank: 1, Host: "d2", Process: 4, Cause: Cause{Kind: CauseSilence, SilenceNS: int64(2500 * time.Millisecond)}}
	server := Failure{Role: Server, Rank: 0, Host: "d1", Cause: Cause{Kind: CauseSignal, Signal: 9}}
	of := func(f Failure, code Code, set func(f *Failure)) Failure {
		if f.Code = code; set != nil {
			set(&f)
		}
		return f
	}
	told := map[Code]bool{}
	for _, tc := range []struct {
		f    Failure
		want string
		loss bool
	}{
		{of(worker, NodeLost, nil), "worker 1 on d2 lost: no heartbeat for 2.5 s", true},
		{of(worker, NodeLost, func(f *Failure) { f.Step = 7 }), "worker 1 on d2 lost: no heartbeat for 2.5 s (last step 7)", true},
		{of(worker, NodeLost, func(f *Failure) { f.Rank, f.Cause = -1, Cause{Kind: CauseExit, Exit: 3} }), "worker on d2 failed: exit 3", true},
		{of(worker, NodeLost, func(f *Failure) { f.Step, f.Cause = 7, Cause{Kind: CauseError, Text: "no memory"} }), "worker 1 on d2 failed: no memory (last step 7)", true},
		{of(worker, NodeLost, func(f *Failure) { f.Cause = Cause{Kind: CauseMachine, Text: "connection to d2 lost"} }), "worker 1 on d2 lost: connection to d2 lost", true},
		{of(worker, NodeLost, func(f *Failure) { f.Cause = Cause{Kind: CauseUnsaid} }), "worker 1 on d2 lost: its process ended with code 0, and its leave request did not arrive", true},
		{of(worker, NodeLost, func(f *Failure) { f.Cause = Cause{Kind: CauseOther} }), "worker 1 on d2 lost: its connection broke, and another process took its place", true},
		{of(worker, NoWorkerLeft, nil), "worker 1 on d2 lost: no heartbeat for 2.5 s; no worker is left", true},
		{Failure{Code: NoWorkerLeft, Rank: -1}, "no worker is left", false},
		{of(worker, TooFewWorkers, func(f *Failure) { f.Left, f.Least = 1, 2 }), "worker 1 on d2 lost: no heartbeat for 2.5 s; 1 left, want at least 2 workers", true},
		{of(worker, NotReplaced, func(f *Failure) { f.WaitedNS = int64(time.Minute) }), "worker 1 on d2 lost: no heartbeat for 2.5 s; no replacement has joined within 1m0s", true},
		{of(server, NodeLost, nil), "server 0 on d1 lost: signal 9 (killed)", true},
		{of(server, NoBackup, func(f *Failure) { f.Text = "key 1 is nowhere" }), "server 0 on d1 lost: signal 9 (killed); key 1 is nowhere", true},
		{of(server, NoBackup, func(f *Failure) { f.Text, f.Cause = "x", Cause{Kind: CauseLeft} }), "server 0 on d1 left: no reason given; x", false},
		{of(server, NoBackup, func(f *Failure) { f.Text, f.Cause = "x", Cause{Kind: CauseRemoved} }), "server 0 on d1 was removed as requested; x", false},
		{of(server, NodeLeft, nil), "server 0 on d1 left while the job was running", false},
		{of(worker, NodeError, func(f *Failure) { f.Cause = Cause{Kind: CauseError, Text: "the disk is full"} }), "worker 1 on d2: the disk is full", false},
		{of(worker, NodeFinal, func(f *Failure) { f.Cause = Cause{Kind: CauseUsage, Exit: 2, Text: "--epochs is 0"} }), "worker 1 on d2: --epochs is 0 (exit 2; no restart can mend this: change the command line or the setting)", false},
		{of(worker, NodeFinal, func(f *Failure) { f.Cause = Cause{Kind: CauseMissingFile, Exit: 1, Text: "open x: no such file"} }), "worker 1 on d2: open x: no such file (exit 1; no restart can mend this: bring the file there, or name another one)", false},
		{of(worker, NodeFinal, func(f *Failure) { f.Cause = Cause{Kind: CauseProgram, Exit: 1, Text: "x"} }), "worker 1 on d2: x (exit 1; no restart can mend this: the program says so)", false},
		{Failure{Code: StartTimeout, WaitedNS: int64(time.Minute), Waiting: []string{"worker 0 (3 s)", "server 1 (3 s)"}}, "start: after 1m0s still waiting for worker 0 (3 s), server 1 (3 s)", false},
		{Failure{Code: ChangeTimeout, Change: 3, WaitedNS: int64(time.Minute), Waiting: []string{"worker 0"}}, "change 3: after 1m0s still waiting for worker 0", false},
		{Failure{Code: TooManyCuts, Text: "epoch 3 was divided 9 times"}, "epoch 3 was divided 9 times", false},
		{Failure{Code: SchedulerEnded, Text: "the scheduler was stopped: x"}, "the scheduler was stopped: x", false},
		{of(server, ProcessFailed, nil), "server 0 on d1 failed: signal 9 (killed)", false},
		{Failure{Code: NotJoined, Waiting: []string{"worker 0 on d1"}}, "worker 0 on d1 ended with exit 0 without joining, and the others wait: every worker must call kvstore.Create", false},
		{of(worker, NotClosed, nil), "worker 1 on d2 ended with exit 0 without closing its store, while others trained; call Close before the program ends", false},
		{Failure{Code: StoppedByOthers}, "all workers stopped cleanly: one of them got SIGTERM from outside the launcher", false},
		{Failure{Code: Interrupted, Text: "interrupt"}, "stopped by interrupt", false},
		{Failure{Code: Checkpointed, Step: 120, Text: "SIGUSR1"}, "stopped with a checkpoint after 120 steps, ready to resume: SIGUSR1", false},
		{Failure{Code: NoCheckpoint, Text: "SIGUSR1: too late"}, "stopped without a checkpoint: SIGUSR1: too late", false},
		{Failure{Code: NotStarted, Text: "no host answers"}, "no host answers", false},
		{Failure{Code: LauncherSilent, WaitedNS: int64(7100 * time.Millisecond), Text: "its hosts are gone"}, "launch itself did not run for 7.1 s (it was stopped, or its machine was suspended): its hosts are gone", false},
		{Failure{Code: NotClean, Text: "d2 does not answer"}, "d2 does not answer", false},
	} {
		told[tc.f.Code] = true
		if got := tc.f.String(); got != tc.want || tc.f.OfLoss() != tc.loss {
			t.Errorf("%+v: got %q, a loss: %t; want %q, %t", tc.f, got, tc.f.OfLoss(), tc.want, tc.loss)
		}
		line, err := Report{Failed: &tc.f}.Line()
		if err != nil {
			t.Errorf("%+v: %v", tc.f, err)
		}
		if got, err := DecodeReport([]byte(line)); err != nil || !reflect.DeepEqual(*got.Failed, tc.f) {
			t.Errorf("%s: got %+v, %v; want %+v", line, got.Failed, err, tc.f)
		}
	}
	for _, code := range codes {
		if !told[code] {
			t.Errorf("code %q: no sentence of it is tested", code)
		}
	}
}

func TestReportsAreStrict(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{`{"running":true}`, ""},
		{`{"present":{"role":"worker","rank":-1}}`, ""},
		{`{}`, "want one of present, absent, running, failed, adaptation, metrics, stopping and stopped"},
		{`{"running":true,"absent":{"role":"server","rank":0}}`, "want one of"},
		{`{"present":{"role":"boss","rank":0}}`, `role "boss"`},
		{`{"present":{"role":"worker","rank":-2}}`, "rank -2"},
		{`{"failed":{"code":"moon"}}`, `failure code "moon"`},
		{`{"failed":{"code":"lost","role":"boss"}}`, `role "boss"`},
		{`{"failed":{"code":"lost","rank":-2}}`, "rank -2"},
		{`{"failed":{"code":"lost","left":-1}}`, "left -1"},
		{`{"failed":{"code":"lost","cause":{"kind":"magic"}}}`, `cause kind "magic"`},
		{`{"failed":{"code":"lost","cause":{"kind":"exit","exit":70000}}}`, "exit 70000"},
		{`{"failed":{"code":"lost","cause":{"kind":"exit","signal":9}}}`, `cause "exit" has signal 9`},
		{`{"failed":{"code":"lost","cause":{"kind":"signal"}}}`, `cause "signal" has signal 0`},
		{`{"failed":{"code":"lost","cause":{"kind":"silence","silence_ns":-1}}}`, "silence_ns -1"},
		{`present	worker 1`, "report"},
		{`{"runing":true}`, `unknown field "runing"`}, //nolint:misspell // the input is to be wrong
		{`{"failed":{"code":"lost","text":"` + strings.Repeat("x", maxReport) + `"}}`, "want at most 65536"},
	} {
		got, err := DecodeReport([]byte(tc.line))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%.80s: got %+v, %v; want an error with %q", tc.line, got, err, tc.want)
		}
	}
}

// Of a long failure the launcher hears as much as fits.
func TestLongFailuresAreCut(t *testing.T) {
	f := Failure{Code: StartTimeout, Rank: -1, Text: strings.Repeat("x", maxReport)}
	for range 5000 {
		f.Waiting = append(f.Waiting, strings.Repeat("y", 100))
	}
	line, err := Report{Failed: &f}.Line()
	if err != nil || !strings.Contains(line, "4837 more") || len(f.Waiting) != 5000 {
		t.Errorf("got %.200s… of %d bytes, %v; want the first nodes, and how many more", line, len(line), err)
	}
}

func FuzzReport(f *testing.F) {
	for _, r := range []Report{{Running: true}, {Present: &Presence{Role: Worker, Rank: 1, Process: 4}}, {Absent: &Presence{Role: Server}},
		{Failed: &Failure{Code: NodeLost, Role: Worker, Host: "d", Cause: Cause{Kind: CauseSignal, Signal: 9}}}} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := DecodeReport(line)
		if err != nil {
			return
		}
		if r.Failed != nil {
			_ = r.Failed.String()
		}
		b, err := r.Line()
		if err != nil { // escapes may make it longer
			return
		}
		again, err := DecodeReport([]byte(b))
		if err != nil {
			t.Fatalf("%s: decoded, and then %s: %v", line, b, err)
		}
		if c, err := again.Line(); err != nil || c != b {
			t.Fatalf("%s: got %s, %v; want %s", line, c, err, b)
		}
	})
}
