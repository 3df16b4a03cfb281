package control

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// aResult has all that a result can have.
func aResult() *Result {
	culprit := ProcessEnd{Process: 4, Role: Worker, Rank: 1, Host: "d2", PID: 101, Fate: FateEnded, Cause: Cause{Kind: CauseSignal, Signal: 9}, Seconds: 61.25, LastLine: "loss 0.5"}
	return &Result{
		Version: ResultVersion, Job: "0123456789abcdef", ExitCode: 137, Phase: Running, Restarts: 1, Signal: 15, Cancelled: true,
		Failure:   &Failure{Code: TooFewWorkers, Role: Worker, Rank: 1, Host: "d2", Process: 4, Step: 7, Cause: culprit.Cause, Left: 1, Least: 2},
		Culprit:   &culprit,
		LostHosts: []LostHost{{Host: "d3", Reason: "connection to d3 lost"}},
		Processes: []ProcessEnd{
			{Process: 1, Role: Scheduler, Host: "localhost", PID: 90, Fate: FateStopped, Cause: Cause{Kind: CauseSignal, Signal: 15}, Seconds: 70},
			{Process: 2, Role: Server, Host: "d1", PID: 91, Fate: FateEnded, Cause: Cause{Kind: CauseExit}, Seconds: 70},
			culprit,
			{Process: 5, Role: Worker, Rank: 2, Host: "d3", Fate: FateLost, Cause: Cause{Kind: CauseMachine, Exit: 255, Text: "connection to d3 lost"}, HostLost: true, Seconds: 3},
			{Process: 6, Role: Worker, Rank: 3, Host: "d3", Fate: FateNotStarted},
		},
		LeftOut: 2,
		Metrics: &Metrics{Step: 7, Values: map[string]float64{"accuracy": 0.5, "loss": 0.25}},
		Changes: []Event{{Number: 3, TimeNS: int64(5 * time.Second), Action: Lost, Host: "d3", Role: Worker, Process: 5, Reason: "worker 2 on d3 lost: no heartbeat for 10 s"},
			{Number: 4, Action: ServerAdded, Host: "d1", Rank: 1}},
		ChangesLeftOut: 2,
	}
}

// What launch writes is what tools written against this version read.
func TestAResultIsTheGoldenOne(t *testing.T) {
	golden, err := os.ReadFile("testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := EncodeResult(aResult())
	if err != nil || string(b) != string(golden) {
		t.Errorf("got %s, %v; want %s", b, err, golden)
	}
	got, err := DecodeResult(golden)
	if err != nil || !reflect.DeepEqual(got, aResult()) {
		t.Errorf("got %+v, %v; want %+v", got, err, aResult())
	}
}

func TestResultsAreStrict(t *testing.T) {
	end := `{"process":1,"role":"worker","rank":0,"host":"d","fate":"ended","cause":{"kind":"exit"},"seconds":1}`
	with := func(change string) string { return `{"version":1,"exit_code":1,"phase":"running"` + change + `}` }
	of := func(old, new string) string {
		return with(`,"processes":[` + strings.Replace(end, old, new, 1) + `]`)
	}
	for _, tc := range []struct{ text, want string }{
		{with(`,"processes":[` + end + `],"culprit":` + end), ""},
		{with(`,"signal":15,"cancelled":true`), ""},
		{`{"exit_code":1,"phase":"running"}`, "version 0, want 1"},
		{`{"version":2,"exit_code":1,"phase":"running"}`, "version 2, want 1"},
		{`{"version":1,"exit_code":1,"phase":"failed"}`, `phase "failed": want starting, forming or running`},
		{with(`,"exit":1`), `unknown field "exit"`},
		{with(`}{`), "more data after the JSON"},
		{`{"version":1,"exit_code":-1,"phase":"running"}`, "exit code -1"},
		{with(`,"signal":-1`), "signal -1"},
		{with(`,"restarts":-1`), "-1 restarts"},
		{with(`,"processes_left_out":-1`), "-1 processes"},
		{with(`,"changes_left_out":-1`), "-1 changes"},
		{`{"version":1,"exit_code":0,"phase":"running","failure":{"code":"lost","rank":0}}`, "exit code 0 with a failure"},
		{`{"version":1,"exit_code":0,"phase":"running","culprit":` + end + `}`, "exit code 0 with a failure"},
		{with(`,"failure":{"code":"moon","rank":0}`), `failure code "moon"`},
		{with(`,"culprit":{"process":0}`), "culprit 0"},
		{with(`,"processes":[` + end + `,` + end + `]`), "process 1 comes after 1"},
		{of(`"worker"`, `"prepare"`), `role "prepare"`},
		{of(`"rank":0`, `"rank":-1`), "rank -1"},
		{of(`"host"`, `"pid":-1,"host"`), "pid -1"},
		{of(`"ended"`, `"eaten"`), `fate "eaten" is not known`},
		{of(`"seconds":1`, `"seconds":-1`), "-1 seconds"},
		{of(`"seconds":1`, `"seconds":1e300`), "1e+300 seconds"},
		{of(`"seconds"`, `"host_lost":true,"seconds"`), `cause "exit" and host_lost true`},
		{of(`"exit"}`, `"machine"}`), `cause "machine" and host_lost false`},
		{of(`"exit"`, `"magic"`), `cause kind "magic"`},
		{with(`,"changes":[{"number":2,"action":"ADDED"},{"number":1,"action":"ADDED"}]`), "number 1 comes after 2"},
		{with(`,"changes":[{"number":2,"action":"EATEN"}]`), `action "EATEN"`},
		{with(`,"metrics":{"step":1,"values":{"loss":0.5}}`), ""},
		{with(`,"metrics":{"step":-1,"values":{"loss":0.5}}`), "metrics of step -1"},
		{with(`,"metrics":{"step":1,"values":{}}`), "0 values"},
		{with(`,"metrics":{"step":1,"values":{"":1}}`), `metric ""`},
		{with(`,"metrics":{"step":1,"values":{"step":1}}`), `metric "step"`},
	} {
		got, err := DecodeResult([]byte(tc.text))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%.200s: got %+v, %v; want an error with %q", tc.text, got, err, tc.want)
		}
	}
	if _, err := DecodeResult(make([]byte, MaxResult+1)); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("a result above the limit: got %v", err)
	}
	r := aResult()
	r.Processes[0].Seconds = math.NaN()
	if _, err := EncodeResult(r); err == nil {
		t.Error("a time that is no number was encoded")
	}
}

func FuzzResult(f *testing.F) {
	b, err := EncodeResult(aResult())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"exit_code":0,"phase":"starting","processes":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeResult(text)
		if err != nil {
			return
		}
		b, err := EncodeResult(r)
		if err != nil {
			t.Fatalf("%s: decoded, and then: %v", text, err)
		}
		again, err := DecodeResult(b)
		if err != nil {
			t.Fatalf("%s: decoded, and then %s: %v", text, b, err)
		}
		if c, err := EncodeResult(again); err != nil || string(c) != string(b) {
			t.Fatalf("%s: got %s, %v; want %s", text, c, err, b)
		}
	})
}
