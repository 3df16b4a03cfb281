package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/gputest"
)

// The test binary is gpucheck, too: it calls itself for each section.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-section" || os.Args[1] == "-exchange") {
		os.Exit(command(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	// With the race detector each child would sleep a second before it ends.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	code := m.Run()
	if dir := builtPrograms.dir; dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// check runs gpucheck and reads its report.
func check(t *testing.T, args ...string) (code int, text string, rep report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	code = settings{self: sectionsProgram(t)}.command(context.Background(), append([]string{"-small", "-json", path, "-bin", programs(t)}, args...), &out, &out)
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

	// They are built before the folder of caches, which is the compiler's too, is another one.
	programs(t)
	for _, v := range fake.Environ(t) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestEveryCheckPassesOnTheStandIns(t *testing.T) {
	onFakes(t)
	only := "libraries,headers,kernels,facts,ops,gradients,ceilings,transfers,group,nets,engines"
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		only += ",steps,curve"
	}
	code, text, rep := check(t, "-sections", only, "-time", "5m")
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
	for _, b := range targets {
		if !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == "bars" && r.Name == b.name && r.Status == ok }) {
			t.Errorf("the gradients' rows are not those that the bar %q looks for", b.name)
		}
	}
	if t.Failed() {
		t.Log(text)
		for _, l := range rep.Logs {
			t.Logf("%s: %s\n%s", l.Section, l.Ended, l.Text)
		}
	}
}

// hasFailed finds a row that is FAIL, of a section.
func hasFailed(rep report, section string) bool {
	return slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == section && r.Status == fail })
}

// An engine of cuDNN that is wrong, or writes nothing.
func TestAWrongResultIsFound(t *testing.T) {
	onFakes(t)
	for _, bits := range []string{"1", "2"} {
		t.Run("CUDNN_BAD="+bits, func(t *testing.T) {
			t.Setenv("FAKECUDA_CUDNN_BAD", bits)
			code, text, rep := check(t, "-sections", "ops", "-time", "2m")
			if code != exitBad || !hasFailed(rep, "ops") {
				t.Errorf("got exit code %d and %d rows that fail, want %d and one at least\n%s", code, rep.count(fail), exitBad, text)
			}
		})
	}
}

// Each check of the kernels sees one that does nothing.
func TestAKernelThatDoesNothingIsFound(t *testing.T) {
	onFakes(t)

	// The first of the optimizers has nothing to do.
	t.Setenv("FAKECUDA_SKIP_AT", "2")
	ops := sections[slices.IndexFunc(sections, func(s section) bool { return s.name == "ops" })]
	for _, name := range []string{"fill, add, ReLU", "cast", "scale and unscale, and what is not finite", "bias", "max and average pooling", "global average pooling", "channels last and first",
		"images from bytes", "batch norm, training and evaluation", "gradient of batch norm", "statistics far from zero", "softmax", "cross-entropy", "mean square error", "dropout", "embedding",
		"pack and unpack", "optimizers"} {
		p := settings{bin: programs(t), small: true}.test("kernels", ops, time.Minute)
		p.args[1] += "/^" + strings.ReplaceAll(regexp.QuoteMeta(name), " ", "_") + "$"
		rep := &report{out: io.Discard}
		p.run(t.Context(), ops, time.Minute, rep)
		if rep.count(fail) == 0 || len(rep.Logs) > 0 || !strings.HasPrefix(rep.Rows[len(rep.Rows)-1].Name, name) {
			t.Errorf("%s: got rows %+v, want one that fails", name, rep.Rows)
		}
	}
}

func TestAGPUThatBreaksInTheMiddleLosesNoOtherSection(t *testing.T) {
	onFakes(t)

	// The numbers are of launches, and of calls, of which the first section has few.
	for setting, want := range map[string]string{"ILLEGAL_AT=40": "CUDA_ERROR_ILLEGAL_ADDRESS", "HANG_AT=400": "time limit"} {
		t.Run(setting, func(t *testing.T) {
			variable, value, _ := strings.Cut(setting, "=")
			t.Setenv("FAKECUDA_"+variable, value)
			code, text, rep := check(t, "-sections", "ops,ceilings,headers", "-time", "6s")
			if code != exitBad || !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == "ops" && r.Status == fail && strings.Contains(r.Detail, want) }) {
				t.Errorf("got exit code %d, want %d, a row of ops that fails, and %q\n%s", code, exitBad, want, text)
			}
			for _, name := range []string{"ceilings", "headers"} {
				if !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Section == name }) {
					t.Errorf("section %s has no rows:\n%s", name, text)
				}
			}
			if !rep.Whole {
				t.Error("the report is not whole")
			}
		})
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

func TestFlagsThatCannotBe(t *testing.T) {
	for _, args := range [][]string{{"-sections", "nothing"}, {"-time", "0"}, {"more"}, {"-device", "-1"}, {"-unknown"}} {
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
	rows = append(rows, rate("torch", "compile-graph bf16, batch 256", 80000), rate("torch", "eager-graph bf16, batch 512", 999999), rate("endtoend", "2 workers, 2 servers, one GPU", 999999),
		rate("endtoend", "the store alone, 1 worker and server", 999999), rate("steps", "bf16, batch 512, graphs and norms of cuDNN", 999999),
		row{Section: "gradients", Name: "narrow, float32: gradient", Value: 2e-6, Unit: "relative error", Detail: "against the reference; most in x"},
		row{Section: "gradients", Name: "whole, float32: gradient", Value: 3e-3, Unit: "relative error", Detail: "against the CPU executor; most in x"},
		row{Section: "gradients", Name: "narrow, bf16: gradient", Value: 0.3, Unit: "relative error", Detail: "against the reference; most in x"},
		row{Section: "gradients", Name: "narrow, bf16: gradient, rounding at the same places", Value: 0.02, Unit: "relative error", Detail: "most in x"})
	want := map[string]gputest.Status{"GPU only, of torch.compile": ok, "GPU only, of eager PyTorch": ok, "end to end, of GPU only": miss,
		"gradient against the reference, float32": ok, "gradient against the reference rounding as it does, bf16": miss}
	values := map[string]float64{"GPU only, of torch.compile": 90000. / 80000, "GPU only, of eager PyTorch": 1.5, "end to end, of GPU only": 0.5, "gradient against the reference, float32": 2e-6, "gradient against the reference rounding as it does, bf16": 0.02}
	for _, r := range bars(rows, false) {
		if s, there := want[r.Name]; there && s != r.Status {
			t.Errorf("%s: got %+v, want %s", r.Name, r, s)
		}
		if v, there := values[r.Name]; there && math.Abs(v-r.Value) > 1e-9 {
			t.Errorf("%s: got %v, want %v", r.Name, r.Value, v)
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v", want)
	}
	for _, r := range bars(rows[:3], false) {
		if r.Status == miss || r.Status == fail {
			t.Errorf("where nothing was compared: got %+v", r)
		}
	}
	for _, r := range bars(append(rows[:3:3], row{Section: "torch", Name: "PyTorch", Status: skip}), false) {
		if strings.Contains(r.Name, "PyTorch") && r.Status != skip {
			t.Errorf("without PyTorch: got %+v, want a row that says so", r)
		}
	}
	if got := bars(nil, false); len(got) != 0 {
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
