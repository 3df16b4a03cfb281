package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// builtPrograms is the folder of programs that tests share; TestMain removes it.
var builtPrograms struct {
	sync.Once
	dir string
	err error
}

// programs builds launch, cifar10, the tests of a GPU and, where the test binary has the race
// detector, gpucheck without it.
func programs(t *testing.T) string {
	t.Helper()
	b := &builtPrograms
	b.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "gpucheck-programs-"); b.err != nil {
			return
		}
		packages := []string{"launch", "examples/cifar10"}
		if raceDetector {
			packages = append(packages, "bench/gpucheck")
		}
		b.err = errors.Join(testbuild.Programs(b.dir, packages...), testbuild.Tests(filepath.Join(b.dir, testsFolder), "gpu",
			"internal/compute/cuda/kernels", "internal/compute/cuda/cublaslt", "internal/compute/cuda/cudnn", "internal/compute/cuda"))
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.dir
}

// sectionsProgram is what sections run in: the test binary, unless it has the race detector, with
// which numbers take three times as long and more. PARAGON_TEST_SLOW asks for the race detector
// there, too.
func sectionsProgram(t *testing.T) string {
	t.Helper()
	if !raceDetector || os.Getenv("PARAGON_TEST_SLOW") != "" {
		return ""
	}
	return filepath.Join(programs(t), "gpucheck")
}

// Real processes: launch, scheduler, servers, and workers that find the stand-ins by the
// environment that launch hands on.
func TestJobsTrainOnTheStandIns(t *testing.T) {
	onFakes(t)
	code, text, rep := check(t, "-sections", "endtoend", "-time", "5m")
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, text)
	}
	for _, name := range []string{"1 worker, 1 server", "2 workers, 2 servers, one GPU", "1 worker, 1 server, bf16 on the wire", "--devices auto"} {
		if !slices.ContainsFunc(rep.Rows, func(r row) bool { return r.Name == name && r.Unit == "images/s" && r.Value > 0 }) {
			t.Errorf("no speed of %q:\n%s", name, text)
		}
	}
	if !slices.ContainsFunc(rep.Rows, func(r row) bool { return strings.HasPrefix(r.Name, "the store alone") && r.Value > 0 }) {
		t.Errorf("no speed of the store:\n%s", text)
	}
	for _, l := range rep.Logs {
		t.Logf("%s: %s\n%s", l.Section, l.Ended, l.Text)
	}
}

func TestProgramsThatAreMissingOrFailAreRows(t *testing.T) {
	onFakes(t)
	none := t.TempDir()
	code, text, _ := check(t, "-sections", "endtoend", "-bin", none, "-time", "1m")
	if code != 0 || !strings.Contains(text, "is not there: make build") {
		t.Errorf("without programs: got exit code %d, want 0 and a row that says what is missing\n%s", code, text)
	}
	code, text, rep := check(t, "-sections", "ops", "-bin", none, "-time", "1m")
	if code != exitBad || rep.count(fail) != 3 || !strings.Contains(text, filepath.Join(testsFolder, "kernels.test")) {
		t.Errorf("without tests: got exit code %d, want %d and a row for each program that is missing\n%s", code, exitBad, text)
	}
}

func TestTheReasonOfAFailedJobIsWhatItsProcessSaidLast(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`scheduler | 2026-11-21 INFO node 1 registered
worker 1  | something else
worker 0  | No --data: training on synthetic images
worker 0  | cifar10: cuda: open cuda:0: out of memory
worker 1  | later
2026-11-21 22:33:14,875 ERROR worker 0 on localhost failed: exit 1; stopping the others
ROLE  RANK
`, "worker 0: cifar10: cuda: open cuda:0: out of memory"},
		{"a\npanic: no cheese\ngoroutine 1\n", "panic: no cheese"},
		{"a\nb\n\n", "b"},
		{"", ""},
	} {
		if got := reason(c.text); got != c.want {
			t.Errorf("of %q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestSharesOfTimeAreRead(t *testing.T) {
	const text = "worker 0  | 1          2.6128     2.1361    0.0000           2   99.6 %  0.4 %  0.0 %  0.0 %  2.43s  915ms\n" +
		"worker 0  | all        2.6128     2.1361    0.0000           2   96.4 %  3.5 %  0.0 %  0.1 %  4.86s  1.37s\n"
	if got, want := shares(text), "compute 96.4%, wait 3.5%, data 0.0%, save 0.1%"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := shares("no table"); got != "" {
		t.Errorf("of no table: got %q, want none", got)
	}
}
