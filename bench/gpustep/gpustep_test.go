package gpustep

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/internal/cuda/fake"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/nn"
)

const (
	batch = 512
	steps = 25 // of an epoch
)

func BenchmarkStep(b *testing.B) {
	bin := build(b)
	for _, nodeNS := range []int{0, 29_000, 58_000, 116_000} {
		alone := aloneStep(b, nodeNS)
		b.Run(fmt.Sprintf("gpu=%v", alone.Round(100*time.Microsecond)), func(b *testing.B) {
			for b.Loop() {
				short, long := runJob(b, bin, nodeNS, 2), runJob(b, bin, nodeNS, 8)
				report(b, alone, long.best, (long.cpu-short.cpu)/(6*steps))
			}
		})
	}
}

func report(b *testing.B, alone, job, cpu time.Duration) {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	b.ReportMetric(ms(alone), "alone-ms/step")
	b.ReportMetric(ms(job), "job-ms/step")
	b.ReportMetric(ms(job-alone), "exposed-ms/step")
	b.ReportMetric(100*ms(alone)/ms(job), "share-%")
	b.ReportMetric(ms(cpu), "cpu-ms/step")
	b.ReportMetric(0, "ns/op")
}

// build makes the programs of a job.
func build(b *testing.B) (folder string) {
	b.Helper()
	folder = b.TempDir()
	if err := testbuild.Programs(folder, "launch", "examples/cifar10"); err != nil {
		b.Fatal(err)
	}
	return folder
}

// aloneStep is the time of a step that no store takes part in, the least of 5 times 10.
func aloneStep(b *testing.B, nodeNS int) time.Duration {
	b.Helper()
	machine := fake.New(b)
	for name, path := range machine.Paths() {
		b.Setenv(name.Variable(), path)
	}
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	machine.Set("memory", 1<<37)
	machine.Set("idle", 2)
	machine.Set("node_ns", int64(nodeNS))
	g := gorgonia.NewGraph()
	images, labels := nn.Input(g, "images", batch, 3, 32, 32), nn.Labels(g, "labels", batch)
	loss := nn.SoftmaxCrossEntropy(nn.ResNet18(images, nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR}), labels)
	program, err := nn.Compile(loss, nn.Config{Device: "cuda:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer program.Close()
	least := time.Hour
	for range 6 { // the first has preparations in it
		begin := time.Now()
		for range 10 {
			if err := program.Step(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
		least = min(least, time.Since(begin)/10)
	}
	return least
}

// A job is what one has taken.
type job struct{ best, cpu time.Duration }

var epochLine = regexp.MustCompile(`Epoch \d+: Train_loss [^,]+, \d+ examples in [0-9.]+ s \((\d+) examples/s\)`)

func runJob(b *testing.B, bin string, nodeNS, epochs int) job {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "launch"), "-n", "1", "-s", "1", "--", filepath.Join(bin, "cifar10"),
		"--devices", "cuda:0", "--stem", "cifar", "--batch", strconv.Itoa(batch), "--train-examples", strconv.Itoa(steps*batch), "--test-examples", "512",
		"--optimizer", "nag", "--lr", "0.02", "--momentum", "0.9", "--epochs", strconv.Itoa(epochs))
	cmd.Env = append(append(os.Environ(), fake.Environ(b)...), "FAKECUDA_DEVICES=1", fmt.Sprint("FAKECUDA_MEMORY=", 1<<37), "FAKECUDA_IDLE=2", fmt.Sprint("FAKECUDA_NODE_NS=", nodeNS))
	cmd.Dir = b.TempDir()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("launch: %v\n%s", err, out)
	}
	best := 0.0
	for _, m := range epochLine.FindAllSubmatch(out, -1) {
		rate, _ := strconv.ParseFloat(string(m[1]), 64) // it matched
		best = max(best, rate)
	}
	if best == 0 {
		b.Fatalf("no epoch has a speed in\n%s", out)
	}
	return job{time.Duration(batch / best * float64(time.Second)), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}
