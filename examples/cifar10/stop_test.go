package main

import (
	"bufio"
	"encoding/json"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/testing/slurmtest"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

// A manifest is what complete.json says of a checkpoint.
type manifest struct {
	Epoch, Step, Steps int
	Files              []struct{ Name string }
	folder             string
}

// A job that SIGUSR1 stops in the middle of an epoch, and that is started again, ends with the very
// parameters, optimizer state and running statistics of one that was not stopped, and both parts
// together print its metrics.
func TestAJobStoppedBySIGUSR1GoesOnBitForBit(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("builds two programs and runs three jobs: runs with PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	testbuild.NeedsWorkspace(t)
	bin := t.TempDir()
	if err := testbuild.Programs(bin, "launch", "examples/cifar10"); err != nil {
		t.Fatal(err)
	}
	// run runs the job with its checkpoints in dir, and calls each with the lines that it
	// prints.
	run := func(dir string, code int, each func(launch *os.Process, line string)) {
		t.Helper()
		cmd := exec.Command(filepath.Join(bin, "launch"), "-n", "2", "-s", "2", "--", filepath.Join(bin, "cifar10"), "--width", "2", "--augment", "--schedule", "cosine",
			"--train-examples", "400", "--test-examples", "16", "--batch", "8", "--epochs", "2", "--eval-steps", "10", "--print-hash", "--out", t.TempDir(), "--checkpoint-dir", dir)
		cmd.Env = append(os.Environ(), "PARAGON_RESUME=1", "XDG_RUNTIME_DIR="+t.TempDir())
		var log strings.Builder
		cmd.Stderr = &log
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for in := bufio.NewScanner(out); in.Scan(); {
			each(cmd.Process, in.Text())
		}
		if cmd.Wait(); cmd.ProcessState.ExitCode() != code {
			t.Fatalf("launch ended with %v, want %d:\n%s", cmd.ProcessState, code, log.String())
		}
	}
	tells := regexp.MustCompile(`^worker \d +\| (parameters |accuracy=|Epoch \d+: step \d+: Test_)`)
	times := regexp.MustCompile(` after [0-9.]+ s|in [0-9.]+ s`)
	var whole, parts []string
	keep := func(to *[]string, line string) {
		if tells.MatchString(line) {
			*to = append(*to, times.ReplaceAllString(line, ""))
		}
	}
	never, stopped := t.TempDir(), t.TempDir()
	run(never, 0, func(_ *os.Process, line string) { keep(&whole, line) })
	told := false
	run(stopped, 85, func(launch *os.Process, line string) {
		keep(&parts, line)
		if !told && strings.Contains(line, "Epoch 0: step ") {
			told = true
			launch.Signal(syscall.SIGUSR1)
		}
	})
	if m := newest(t, stopped); m.Epoch != 0 || m.Step == 0 || m.Step == 25 {
		t.Fatalf("the job was stopped after step %d of epoch %d, want one in the middle of epoch 0", m.Step, m.Epoch)
	}
	run(stopped, 0, func(_ *os.Process, line string) { keep(&parts, line) })

	// The workers' lines come in any order.
	slices.Sort(whole)
	slices.Sort(parts)

	// Each worker prints its parameters and four evaluations, and worker 0 two lines of metrics.
	if d := cmp.Diff(whole, parts); d != "" || len(whole) != 12 {
		t.Errorf("%d lines of the run that was not stopped, want 12; both parts of the other one told\n%s", len(whole), d)
	}
	if got, want := tensors(t, newest(t, stopped)), tensors(t, newest(t, never)); len(got) < 200 || !maps.Equal(got, want) {
		t.Errorf("the last checkpoints have other tensors:\n%s", cmp.Diff(want, got))
	}
}

// On four nodes of Slurm the job is requeued where it was stopped, and ends with the tensors and
// metrics of a run on this machine that was not stopped.
func TestAJobRequeuedBySlurmGoesOnBitForBit(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("builds two programs and runs three jobs: runs with PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	c := slurmtest.Start(t, slurmtest.Config{Nodes: 4})
	testbuild.NeedsWorkspace(t)
	bin := t.TempDir()
	if err := testbuild.Programs(bin, "launch", "examples/cifar10"); err != nil {
		t.Fatal(err)
	}
	train := func(dir string) []string {
		return []string{"-n", "4", "-s", "2", "--", filepath.Join(bin, "cifar10"), "--width", "2", "--augment", "--schedule", "cosine", "--train-examples", "800",
			"--test-examples", "16", "--batch", "8", "--epochs", "2", "--print-hash", "--out", t.TempDir(), "--checkpoint-dir", dir}
	}
	here, there := t.TempDir(), t.TempDir()
	local := exec.Command(filepath.Join(bin, "launch"), train(here)...)
	local.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	want, err := local.Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := c.Command(filepath.Join(bin, "launch"), append([]string{"slurm", "script", "--nodes", "4"}, train(there)...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	id := c.Batch(t, string(script))
	c.AwaitOutput(t, id, "worker 0  | Epoch 0: step ")
	c.Run(t, "scancel", "--signal=USR1", "--batch", id)
	c.Await(t, id, "COMPLETED")
	if n := c.Field(id, "Restarts"); n != "1" {
		t.Fatalf("the job was started again %s times, want once", n)
	}
	tells := regexp.MustCompile(`(?m)^worker \d +\| (parameters |accuracy=).*$`)
	told := func(out string) []string {
		lines := tells.FindAllString(out, -1)
		slices.Sort(lines)
		return lines
	}
	if d := cmp.Diff(told(string(want)), told(c.Output(id))); d != "" || len(told(string(want))) != 4+2 {
		t.Errorf("on this machine and on Slurm the job told\n%s", d)
	}
	if got, want := tensors(t, newest(t, there)), tensors(t, newest(t, here)); len(got) < 200 || !maps.Equal(got, want) {
		t.Errorf("the last checkpoints have other tensors:\n%s", cmp.Diff(want, got))
	}
}

// newest reads the newest checkpoint's manifest.
func newest(t *testing.T, dir string) (m manifest) {
	t.Helper()
	all, _ := filepath.Glob(filepath.Join(dir, "step-*", "complete.json"))
	if len(all) == 0 {
		t.Fatal("there is no checkpoint")
	}
	m.folder = filepath.Dir(slices.Max(all))
	b, err := os.ReadFile(slices.Max(all))
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tensors are the checksums of all tensors in a checkpoint's files.
func tensors(t *testing.T, m manifest) map[string]uint32 {
	t.Helper()
	sums := make(map[string]uint32)
	for _, f := range m.Files {
		file, err := checkpoint.Open(filepath.Join(m.folder, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range file.Tensors() {
			r, err := file.Section(info.Name)
			sum := crc32.NewIEEE()
			if err == nil {
				_, err = io.Copy(sum, r)
			}
			if err != nil {
				t.Fatal(err)
			}
			sums[f.Name+" "+info.Name] = sum.Sum32()
		}
		file.Close()
	}
	return sums
}
