package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// bad are sections that do not end well, for the children of tests.
var bad = []section{
	{name: "panics", run: func(c *checker) error {
		c.infof("before", "it was well")
		panic("out of cheese")
	}},
	{name: "hangs", run: func(c *checker) error { c.infof("before", "it was well"); select {} }},
	{name: "isKilled", run: func(c *checker) error {
		c.infof("before", "it was well")
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}},
	{name: "crashes", run: func(c *checker) error {
		c.infof("before", "it was well")
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		select {}
	}},
	{name: "writesNonsense", run: func(c *checker) error {
		fmt.Fprintln(c.out, mark+attribute+"test "+gputest.Key+" this is no row")
		return nil
	}},

	// talks writes more than pipes hold.
	{name: "talks", run: func(c *checker) error {
		for i := range 3000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 200))
			c.infof(fmt.Sprint("row ", i), "%s", strings.Repeat("y", 300))
		}
		return nil
	}},

	// The one that it leaves has its pipes and a session of its own.
	{name: "leavesOne", run: func(c *checker) error {
		cmd := exec.Command("sleep", "30")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err := cmd.Start()
		if err == nil {
			c.infof("process", "%d", cmd.Process.Pid)
		}
		return err
	}},
}

func init() { sections = append(sections, bad...) }

// runBad runs one of them and returns its rows.
func runBad(t *testing.T, name string, limit time.Duration) (*report, time.Duration) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	rep := &report{out: &bytes.Buffer{}}
	sec := sections[slices.IndexFunc(sections, func(s section) bool { return s.name == name })]
	begun := time.Now()
	runSection(context.Background(), settings{epochs: 1}, sec, limit, rep)
	return rep, time.Since(begun)
}

func TestASectionThatEndsBadlyIsARowAndKeepsItsOthers(t *testing.T) {
	for name, want := range map[string]string{"panics": "panic: out of cheese", "isKilled": "signal: killed", "crashes": "SIGSEGV"} {
		rep, _ := runBad(t, name, time.Minute)
		last := rep.Rows[len(rep.Rows)-1]
		if len(rep.Rows) != 2 || rep.Rows[0].Name != "before" || last.Status != fail || !strings.Contains(last.Detail, want) {
			t.Errorf("%s: got rows %+v, want its row and one with %q", name, rep.Rows, want)
		}
	}
	rep, _ := runBad(t, "writesNonsense", time.Minute)
	if len(rep.Rows) != 1 || rep.Rows[0].Status != fail || !strings.Contains(rep.Rows[0].Detail, "this is no row") {
		t.Errorf("nonsense: got rows %+v, want one that fails", rep.Rows)
	}
}

func TestASectionThatHangsIsEndedAndSaysWhere(t *testing.T) {
	t.Parallel()
	rep, took := runBad(t, "hangs", 500*time.Millisecond)
	if took > 30*time.Second {
		t.Errorf("it was ended after %v, want about half a second", took)
	}
	if len(rep.Rows) != 2 || rep.Rows[1].Status != fail || !strings.Contains(rep.Rows[1].Detail, "time limit") {
		t.Errorf("got rows %+v, want its row and one of its time limit", rep.Rows)
	}
	if len(rep.Logs) != 1 || !strings.Contains(rep.Logs[0].Text, "goroutine") {
		t.Errorf("got logs %+v, want one with stacks", rep.Logs)
	}
}

func TestASectionThatTalksALotLosesNoRow(t *testing.T) {
	rep, _ := runBad(t, "talks", time.Minute)
	if len(rep.Rows) != 3000 || rep.count(fail) != 0 {
		t.Errorf("got %d rows, %d of which fail, want 3000 and none: %+v", len(rep.Rows), rep.count(fail), rep.Rows[len(rep.Rows)-1])
	}
}

func TestWhomASectionLeavesBehindHoldsUpNobody(t *testing.T) {
	t.Parallel()
	rep, took := runBad(t, "leavesOne", time.Minute)
	if took > 20*time.Second {
		t.Errorf("it took %v, want seconds", took)
	}
	if len(rep.Rows) == 0 || rep.Rows[0].Name != "process" || rep.count(fail) != 0 {
		t.Fatalf("got rows %+v, want one that names a process", rep.Rows)
	}
	var pid int
	fmt.Sscan(rep.Rows[0].Detail, &pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestTheEndAndTheBeginningOfALongTextAreKept(t *testing.T) {
	w := &tailWriter{}
	fmt.Fprintln(w, "panic: the first")
	for range 10000 {
		fmt.Fprintln(w, strings.Repeat("z", 99))
	}
	fmt.Fprintln(w, "the last")
	text := w.String()
	if len(text) > 200<<10 || !strings.HasPrefix(text, "panic: the first\n") || !strings.HasSuffix(text, "the last\n") || failure(text) != "panic: the first" {
		t.Errorf("got %d bytes that begin with %.30q and end with %.30q", len(text), text, text[len(text)-30:])
	}
}

func TestRowsAreTakenOutOfWhatTestsWrite(t *testing.T) {
	const text = "noise of a library\x16=== RUN   TestGPUOps\n\x16=== RUN   TestGPUOps/add,_ReLU\n" +
		"\x16=== ATTR  TestGPUOps/add,_ReLU row {\"name\":\"add, ReLU f32\",\"status\":\"ok\",\"value\":2}\n\x16--- PASS: TestGPUOps/add,_ReLU (0.00s)\n" +
		"\x16=== ATTR  TestGPUOps/x other {}\n\x16=== RUN   TestGPUOps/bias\n\x16=== RUN   TestGPUOps/bias/f16\n    bias_test.go:7: first\n        second\n\x16--- FAIL: TestGPUOps/bias/f16 (0.10s)\n" +
		"\x16--- FAIL: TestGPUOps/bias (0.10s)\n\x16=== RUN   TestGPUOps/cast\n    cast_test.go:8: a log\n\x16--- PASS: TestGPUOps/cast (0.10s)\n" +
		"\x16=== NAME  TestGPUOps\n    ops_test.go:9: no GPU\n\x16--- SKIP: TestGPUOps (0.20s)\nthe last"
	var rows []row
	rest := &tailWriter{}
	o := &output{section: "ops", add: func(r row) { rows = append(rows, r) }, rest: rest, said: map[string]string{}}

	// The text may come in any pieces.
	for i := range text {
		fmt.Fprint(o, text[i:i+1])
	}
	want := []row{{Section: "ops", Name: "add, ReLU f32", Status: ok, Value: 2}, {Section: "ops", Name: "bias/f16", Status: fail, Detail: "first\nsecond"},
		{Section: "ops", Name: "the whole section", Status: skip, Detail: "no GPU"}}
	if !slices.Equal(rows, want) || o.fails != 1 {
		t.Errorf("got %d that fail of rows\n%+v\nwant 1 of\n%+v", o.fails, rows, want)
	}
	if got := rest.String(); !strings.HasPrefix(got, "noise of a library") || strings.Contains(got, "add, ReLU f32") {
		t.Errorf("besides rows it was\n%s", got)
	}
}
