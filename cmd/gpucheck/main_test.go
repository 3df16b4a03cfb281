package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/fake"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// The test binary is gpucheck, too: it calls itself for each section.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-section" {
		os.Exit(command(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// check runs gpucheck and reads its report.
func check(t *testing.T, args ...string) (code int, text string, rep report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	code = command(context.Background(), append([]string{"-small", "-json", path}, args...), &out, &out)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if err := json.Unmarshal(data, &rep); err != nil {
		t.Fatal(err)
	}
	return code, out.String(), rep
}

// onFakes makes children find the stand-ins of the libraries.
func onFakes(t *testing.T) {
	t.Helper()
	for _, v := range fake.Environ(t) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestEveryCheckPassesOnTheStandIns(t *testing.T) {
	onFakes(t)
	only := "libraries,headers,kernels,facts,ops,gradients,ceilings,transfers"
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		only = "libraries,headers,kernels,facts,ops,nets,gradients,ceilings,steps,engines,transfers,curve"
	}
	code, text, rep := check(t, "-only", only, "-time", "5m")
	if code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	t.Logf("seconds: %.3v", rep.Seconds)
	seen := map[string]int{}
	for _, r := range rep.Rows {
		seen[r.Section]++
		if r.Status == fail || r.Status == miss {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range strings.Split(only, ",") {
		if seen[name] == 0 {
			t.Errorf("section %s has no rows", name)
		}
	}
	if t.Failed() {
		t.Log(text)
		for _, l := range rep.Logs {
			t.Logf("%s: %s\n%s", l.Section, l.Ended, l.Text)
		}
	}
}

func TestAWrongResultIsFound(t *testing.T) {
	onFakes(t)
	t.Setenv("FAKECUDA_ILLEGAL_AT", "40")
	code, text, rep := check(t, "-only", "ops,ceilings", "-time", "2m")
	if code != exitBad {
		t.Errorf("with a GPU that breaks: got exit code %d, want %d\n%s", code, exitBad, text)
	}
	if rep.count(fail) == 0 {
		t.Errorf("no row is FAIL:\n%s", text)
	}
	if !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == "ceilings" }) {
		t.Errorf("nothing comes after the section that broke:\n%s", text)
	}
}

func TestWithoutAGPUItSaysWhatIsMissing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.so")
	for _, v := range []string{"CUDA", "CUDNN", "CUBLASLT"} {
		t.Setenv("PARAGON_"+v+"_PATH", none)
	}
	code, text, rep := check(t, "-time", "1m")
	if code != exitNoGPU {
		t.Errorf("got exit code %d, want %d\n%s", code, exitNoGPU, text)
	}
	for _, want := range []string{"no GPU can be used here", "ops"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in what it prints:\n%s", want, text)
		}
	}
	for _, sec := range sections {
		if sec.gpu && !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == sec.name && r.Status == skip }) {
			t.Errorf("section %s has no row that says it was skipped", sec.name)
		}
	}
}

func TestASectionThatHangsIsEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /bin/sleep and process groups")
	}
	rep := &report{out: &bytes.Buffer{}}
	dir := t.TempDir()
	sleeper := filepath.Join(dir, "python")
	if err := os.WriteFile(sleeper, []byte("#!/bin/sh\necho here >&2\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sec := sections[slices.IndexFunc(sections, func(s section) bool { return s.name == "torch" })]
	begun := time.Now()
	runSection(context.Background(), settings{bin: dir, python: sleeper, epochs: 1}, sec, 2*time.Second, rep)
	if took := time.Since(begun); took < 1500*time.Millisecond || took > 20*time.Second {
		t.Errorf("it was ended after %s, want about 2 s", took)
	}
	if len(rep.Rows) == 0 || rep.Rows[0].Status != skip || !strings.Contains(rep.Rows[0].Detail, "PyTorch") {
		t.Errorf("got rows %v, want one that says that PyTorch was skipped", rep.Rows)
	}
}

func TestFlagsThatCannotBe(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-time", "0"}, {"more"}, {"-device", "-1"}, {"-unknown"}} {
		var out bytes.Buffer
		if code := command(context.Background(), args, &out, &out); code != exitUsage || out.Len() == 0 {
			t.Errorf("%q: got exit code %d and %q, want %d and a reason", args, code, out.String(), exitUsage)
		}
	}
}

func TestBarsCompareTheBestOfEach(t *testing.T) {
	rate := func(section, name string, v float64) row {
		return row{Section: section, Name: name, Value: v, Unit: "images/s", Status: info}
	}
	rows := []row{rate("steps", "bf16, batch 512, graphs", 70000), rate("steps", "bf16, batch 128, graphs", 90000), rate("steps", "bf16, batch 64, eager", 99000),
		rate("torch", "eager bf16, batch 512", 60000), rate("torch", "compile bf16, batch 512", 75000), rate("torch", "compile fp16, batch 512", 999999),
		rate("endtoend", endToEndName, 45000)}
	want := map[string]status{"GPU only, of torch.compile": ok, "GPU only, of eager PyTorch": ok, "end to end, of GPU only": miss}
	for _, r := range bars(rows) {
		if s, there := want[r.Name]; there && s != r.Status {
			t.Errorf("%s: got %+v, want %s", r.Name, r, s)
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v", want)
	}
	if got := bars(nil); len(got) != 0 {
		t.Errorf("of nothing: got %v, want none", got)
	}
}

func TestSpeedsAreReadFromWhatWorkersWrite(t *testing.T) {
	text := `worker 0 | Epoch 0: Train_loss 2.30, 25600 examples in 9.1 s (2800 examples/s)
worker 1 | Epoch 0: Train_loss 2.31, 25600 examples in 9.1 s (2900 examples/s)
worker 0 | Epoch 1: Train_loss 1.842315, 25600 examples in 0.6 s (41000 examples/s)
worker 1 | Epoch 1: Train_loss 1.5, 25600 examples in 0.6 s (42000 examples/s)
`
	rates, loss := epochRates(text)
	if !slices.Equal(rates, []float64{5700, 83000}) || loss != 1.5 {
		t.Errorf("got %v and loss %v, want [5700 83000] and 1.5", rates, loss)
	}
}

func TestSixteenBitNumbersGoThereAndBack(t *testing.T) {
	for _, typ := range []kernels.Type{kernels.BFloat16, kernels.Float16} {
		for h := range 1 << 16 {
			x := wide(typ, uint16(h))
			if x != x {
				continue
			}
			if got := narrow(typ, x); got != uint16(h) {
				t.Fatalf("%v %#04x is %v, and that %#04x", typ, h, x, got)
			}
		}
	}
	if got := wide(kernels.Float16, narrow(kernels.Float16, 1.0/3)); math.Abs(float64(got)-1.0/3) > 1e-4 {
		t.Errorf("a third in float16 is %v", got)
	}
}

func TestARowIsPrintedOnOneLine(t *testing.T) {
	r := row{Section: "ops", Name: "add", Status: fail, Value: 0.25, Unit: "relative error", Bound: 1e-3, Detail: "first\nsecond"}
	if s := r.String(); strings.Count(s, "\n") != 0 || !strings.Contains(s, "0.25 relative error (0.001)") || !strings.Contains(s, "first") {
		t.Errorf("got %q", s)
	}
}
