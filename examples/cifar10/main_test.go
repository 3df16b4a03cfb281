package main

import (
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/testing/metricstest"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// cifar10 runs the command with a small set of synthetic images, a narrow network and these flags.
// Checkpoints of the whole ResNet18 (134 MB) take half a minute each under the race detector.
func cifar10(t *testing.T, flags ...string) error {
	t.Helper()
	app := newApp()
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	return app.RunContext(t.Context(), append([]string{"cifar10", "--train-examples", "24", "--test-examples", "8", "--batch", "8", "--width", "8"}, flags...))
}

func TestTrainsResumesAndDraws(t *testing.T) {
	out, checkpoints := filepath.Join(t.TempDir(), "a", "b"), t.TempDir()
	flags := []string{"--out", out, "--checkpoint-dir", checkpoints, "--schedule", "cosine", "--warmup-epochs", "0.5", "--augment", "--print-hash"}
	metricstest.WantSteps(t, metricstest.Printed(t, func() {
		if err := cifar10(t, append(flags, "--epochs", "1")...); err != nil {
			t.Fatal(err)
		}
	}), 1, "accuracy", "loss")
	f, err := os.Open(filepath.Join(out, "cifar10.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("picture: %v", err)
	}
	if err := cifar10(t, append(flags, "--epochs", "1")...); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a new run in the same folder: got error %v, want one that names the other run", err)
	}
	if err := cifar10(t, append(flags, "--epochs", "1", "--resume")...); err != nil {
		t.Errorf("resume: %v", err)
	}
}

// With --adapt a run takes other batches, and goes on from its checkpoint.
func TestAdaptsAndResumes(t *testing.T) {
	flags := []string{"--out", t.TempDir(), "--checkpoint-dir", t.TempDir(), "--adapt", "--max-batch", "16", "--initial-batch", "4", "--rule", "sqrt", "--schedule", "cosine"}
	if err := cifar10(t, append(flags, "--epochs", "1")...); err != nil {
		t.Fatal(err)
	}
	if err := cifar10(t, append(flags, "--epochs", "2", "--resume")...); err != nil {
		t.Errorf("resume: %v", err)
	}
}

// A model of another width of head starts a run whose layers are frozen but for the head, and the
// error of a file that does not fit names flags.
func TestFineTunesAPartOfAModel(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"--out", t.TempDir(), "--width", "2", "--max-steps", "1", "--epochs", "1"}
	if err := cifar10(t, append(flags, "--checkpoint-dir", dir)...); err != nil {
		t.Fatal(err)
	}
	flags = append(flags, "--init-from", dir)
	if err := cifar10(t, append(flags, "--init-skip", "fc.*", "--freeze", "*", "--freeze", "!fc.*")...); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--width", "3"}, "--init-ignore-mismatched"},
		{[]string{"--init-skip", "head.*"}, `--init-skip: "head.*" matches no name`},
		{[]string{"--init-from", "", "--init-skip", "fc.*"}, "need --init-from"},
		{[]string{"--freeze", "layer9.*"}, `"layer9.*" matches no parameter`},
	} {
		if err := cifar10(t, append(flags, c.flags...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want one with %s", c.flags, err, c.want)
		}
	}
}

// With a learning rate of 0 no evaluation is better than the first one.
func TestARunThatGetsNoBetterEndsEarly(t *testing.T) {
	dir := t.TempDir()
	err := cifar10(t, "--out", t.TempDir(), "--width", "1", "--train-examples", "4", "--batch", "2", "--test-examples", "2", "--optimizer", "sgd", "--lr", "1e-30",
		"--epochs", "9", "--early-stop", "2", "--class-weights", "1,1,1,2,1,1,1,1,1,1", "--checkpoint-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil || len(folders) == 0 || filepath.Base(folders[len(folders)-1]) > "step-00000016" {
		t.Errorf("checkpoints %q, %v, want the run to end before all 18 steps", folders, err)
	}
}

// launch --restarts sets PARAGON_RESUME: where there are checkpoints the run goes on.
func TestAJobThatIsStartedAgainResumes(t *testing.T) {
	flags := []string{"--out", t.TempDir(), "--checkpoint-dir", t.TempDir(), "--checkpoint-steps", "1", "--epochs", "1"}
	if err := cifar10(t, append(flags, "--max-steps", "1")...); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PARAGON_RESUME", "1")
	if err := cifar10(t, flags...); err != nil {
		t.Errorf("started again: %v", err)
	}
}

// By hand a damaged checkpoint is an error with the flags that go on from the one before it; a job
// that launch starts again takes that by itself. A model of a checkpoint is a beginning, too.
func TestADamagedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"--out", t.TempDir(), "--width", "2", "--checkpoint-dir", dir, "--checkpoint-steps", "1", "--epochs", "1"}
	if err := cifar10(t, flags...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "step-00000003", "store.safetensors")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	err = cifar10(t, append(flags, "--resume")...)
	if err == nil || !strings.Contains(program.WithFlags(err).Error(), "(--resume --resume-step 2)") || !strings.Contains(err.Error(), "store.safetensors: tensor ") {
		t.Errorf("resume: got error %v, want one that names the tensor and --resume-step 2", err)
	}
	if err := cifar10(t, append(flags, "--resume-step", "2")...); err == nil || !strings.Contains(err.Error(), "needs --resume") {
		t.Errorf("without --resume: got error %v", err)
	}
	if err := cifar10(t, "--out", t.TempDir(), "--width", "2", "--max-steps", "1", "--init-from", filepath.Join(dir, "step-00000002")); err != nil {
		t.Errorf("--init-from: %v", err)
	}
	if err := cifar10(t, "--out", t.TempDir(), "--width", "2", "--max-steps", "1", "--init-from", dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("--init-from a damaged checkpoint: got error %v", err)
	}
	t.Setenv("PARAGON_RESUME", "1")
	if err := cifar10(t, flags...); err != nil {
		t.Errorf("started again: %v", err)
	}
}

func TestTrainsWithOtherFlags(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("makes three more whole ResNet18: runs with PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	for _, flags := range [][]string{
		{"--devices", "cpu:0,cpu:1", "--optimizer", "sgd", "--momentum", "0.9", "--batch", "4", "--clip", "1"},
		{"--kvstore", "local", "--update-on-worker", "--dtype", "bf16"},
		{"--kvstore", "dist_async", "--staleness", "1"},
		{"--local-steps", "2"},
		{"--label-smoothing", "0.1", "--decay-weights-only", "--optimizer", "nag", "--weight-decay", "5e-4", "--schedule", "onecycle"},
	} {
		if err := cifar10(t, append(flags, "--max-steps", "1", "--out", t.TempDir())...); err != nil {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

// What is printed at the start adds up, and says what sharing memory saves.
func TestMemoryPlanAddsUp(t *testing.T) {
	n, err := compile(settings{model: modelSettings{name: "resnet18", stem: "imagenet", dtype: "float32", batch: 2, devices: []string{"cpu:0"}, threads: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	text := program.MemoryPlan(n.training, []string{"cpu:0"})
	var total, parameters, gradients, inputs, arena, unshared float64
	if _, err := fmt.Sscanf(text, "Memory plan: %f MB (parameters %f, gradients %f, inputs %f, arena %f; %f without sharing)",
		&total, &parameters, &gradients, &inputs, &arena, &unshared); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if sum := parameters + gradients + inputs + arena; math.Abs(sum-total) > 0.3 || parameters < 44 || unshared <= total {
		t.Errorf("%q: the parts add up to %.1f, want the total, and more without sharing", text, sum)
	}
}

// smallRun are settings of an epoch of three steps.
func smallRun(t *testing.T) settings {
	return settings{
		images:   imageSettings{trainExamples: 24, testImages: 8},
		model:    modelSettings{name: "resnet18", stem: "imagenet", width: 8, dtype: "float32", batch: 8, devices: []string{"cpu:0"}},
		training: trainingSettings{epochs: 1, optimizer: "adam", schedule: "constant"},
		store:    storeSettings{name: "dist_sync", staleness: -1},
		output:   program.Output{Dir: t.TempDir()},
	}
}

// A run that is stopped says whether it wrote a checkpoint.
func TestStopsAsAsked(t *testing.T) {
	for _, test := range []struct{ dir, want string }{
		{"", "stopped on request"},
		{t.TempDir(), "stopped on request, with a checkpoint; --resume continues from it"},
	} {
		stop := make(chan struct{})
		close(stop)
		s := smallRun(t)
		s.stop, s.checkpoint.Dir = stop, test.dir
		err := train(t.Context(), s)
		if !errors.Is(err, worker.ErrStopped) {
			t.Errorf("got error %v, want ErrStopped", err)
		}
		if text, code := program.Ending(err); text != test.want || code != 143 {
			t.Errorf("--checkpoint-dir %q: got %q and exit code %d, want %q and 143", test.dir, text, code, test.want)
		}
		if saved, _ := filepath.Glob(filepath.Join(test.dir, "step-*", "complete.json")); test.dir != "" && len(saved) != 1 {
			t.Errorf("got checkpoints %q, want one", saved)
		}
	}
}

func TestRefusesByName(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--bogus"}, "-bogus"},
		{[]string{"more"}, `got "more" after the flags`},
		{[]string{"--batch", "x"}, "batch"},
		{[]string{"--batch", "0"}, "--batch is 0"},
		{[]string{"--batch", "99999999"}, "--batch is 99999999, want 1 to 65536"},
		{[]string{"--width", "99999999"}, "--width is 99999999, want 1 to 1024"},
		{[]string{"--threads", "99999999"}, "Threads is 99999999, want 0 to 4096"},
		{[]string{"--train-examples", "99999999999"}, "--train-examples is 99999999999, want at least 1, or 0 for all; of synthetic images at most 1000000"},
		{[]string{"--test-examples", "99999999999"}, "--test-examples is 99999999999"},
		{[]string{"--ema", "1"}, "--ema is 1, want above 0 and below 1"},
		{[]string{"--ema", "0.9", "--early-stop", "2"}, "--ema with --early-stop"},
		{[]string{"--ema", "0.9", "--local-steps", "2"}, "--ema with --kvstore dist_async or --local-steps"},
		{[]string{"--early-stop", "-1"}, "--early-stop is -1"},
		{[]string{"--early-stop", "2", "--kvstore", "dist_async"}, "--early-stop with --kvstore dist_async"},
		{[]string{"--class-weights", "1,2"}, "--class-weights has 2 numbers, want one for each of the 10 classes"},
		{[]string{"--class-weights", "1,1,1,1,-1,1,1,1,1,1"}, "--class-weights has -1, want finite numbers of at least 0"},
		{[]string{"--epochs", "0"}, "--epochs is 0"},
		{[]string{"--train-examples", "-1"}, "--train-examples is -1"},
		{[]string{"--test-examples", "-1"}, "--test-examples is -1"},
		{[]string{"--devices", ""}, "--devices is"},
		{[]string{"--devices", "tpu:0"}, `"tpu:0"`},
		{[]string{"--devices", "auto,cpu:0"}, `"auto"`},
		{[]string{"--devices", "cuda:99"}, "cuda:99"},
		{[]string{"--dtype", "tf32"}, "tf32"},
		{[]string{"--threads", "-1"}, "Threads is -1"},
		{[]string{"--model", "vgg"}, `--model is "vgg"`},
		{[]string{"--stem", "small"}, `--stem is "small"`},
		{[]string{"--dtype", "fp8"}, `--dtype: nn: number type "fp8"`},
		{[]string{"--optimizer", "sgdd"}, `"sgdd"`},
		{[]string{"--schedule", "square"}, `--schedule is "square"`},
		{[]string{"--width", "-1"}, "--width is -1"},
		{[]string{"--max-batch", "64"}, "need --adapt"},
		{[]string{"--adapt", "--max-batch", "-1"}, "--max-batch is -1"},
		{[]string{"--adapt", "--max-batch", "4"}, "--max-batch is 4, below the initial batch of 8 (--batch times the devices); want at least"},
		{[]string{"--adapt", "--max-batch", "15", "--initial-batch", "16"}, "--max-batch is 15, below the initial batch of 16 (--initial-batch)"},
		{[]string{"--adapt", "--rule-warmup-epochs", "2"}, "want --rule legw"},
		{[]string{"--adapt", "--rule", "legw", "--rule-warmup-epochs", "-2"}, "--rule-warmup-epochs: "},
		{[]string{"--adapt", "--local-steps", "2"}, "--adapt with --local-steps 2, want 0"},
		{[]string{"--adapt", "--max-batch", "64", "--rule", "cubic"}, `--rule, --rule-warmup-epochs: adapt: learning-rate rule "cubic" is unknown`},
		{[]string{"--adapt", "--kvstore", "dist_async"}, "--adapt with --kvstore dist_async, want dist_sync"},
		{[]string{"--adapt", "--update-on-worker"}, "--adapt with --update-on-worker"},
		{[]string{"--adapt", "--compression", "topk"}, "--adapt with --compression topk, want none"},
		{[]string{"--label-smoothing", "1"}, "--label-smoothing is 1"},
		{[]string{"--devices", "cpu:0", "--dtype", "fp16"}, "--dtype fp16 with --devices cpu:0: nn: Config.DType is fp16"},
		{[]string{"--lr", "-1"}, "LearningRate"},
		{[]string{"--warmup-epochs", "-1"}, "--warmup-epochs is -1"},
		{[]string{"--kvstore", "elsewhere"}, `"elsewhere"`},
		{[]string{"--compression", "3bit"}, `"3bit"`},
		{[]string{"--compression", "topk", "--compression-ratio", "2"}, "ratio: got 2"},
		{[]string{"--compression", "2bit", "--compression-threshold", "-1"}, "threshold: got -1"},
		{[]string{"--compression-pull", "1bit"}, `"1bit" of values sent back`},
		{[]string{"--staleness", "1"}, "want dist_async"},
		{[]string{"--local-steps", "-1"}, "--local-steps is -1"},
		{[]string{"--local-steps", "4", "--outer-lr", "0"}, "--outer-lr is 0"},
		{[]string{"--local-steps", "4", "--outer-momentum", "1"}, "Momentum"},
		{[]string{"--local-steps", "4", "--kvstore", "dist_async"}, "local steps"},
		{[]string{"--resume"}, "--checkpoint-dir"},
		{[]string{"--checkpoint-steps", "-1"}, "--checkpoint-steps is -1"},
		{[]string{"--eval-steps", "-1"}, "--eval-steps is -1"},
		{[]string{"--checkpoint-every", "-1s"}, "--checkpoint-every is -1s"},
		{[]string{"--checkpoint-dir", "ftp://host/x", "--max-steps", "1"}, "want a path, file:///path or one of"},
		{[]string{"--download"}, "--download needs --data"},
		{[]string{"--data", "/nowhere"}, "/nowhere"},
		{[]string{"--freeze", "nothing*"}, `--freeze: "nothing*" matches no parameter`},
		{[]string{"--out", "/dev/null/out"}, "--out"},
	} {
		if err := cifar10(t, append([]string{"--out", t.TempDir()}, test.flags...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got error %v, want one with %q", test.flags, err, test.want)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		schedule string
		warm     float64

		// want has the rates of some of 40 steps.
		want map[uint64]float64
	}{
		{"constant", 0, map[uint64]float64{0: 0.5, 39: 0.5}},
		{"cosine", 0, map[uint64]float64{0: 0.5, 20: 0.25, 40: 0}},
		{"linear", 0, map[uint64]float64{0: 0.5, 20: 0.25, 30: 0.125, 40: 0}},
		{"linear", 1, map[uint64]float64{4: 0.25, 9: 0.5, 25: 0.25, 40: 0}},
		{"onecycle", 0, map[uint64]float64{0: 0.05, 4: 0.25, 9: 0.5, 10: 0.5, 25: 0.25, 40: 0}},
		{"onecycle", 2, map[uint64]float64{9: 0.25, 19: 0.5, 30: 0.25, 40: 0}},
	} {
		cfg, err := (&trainingSettings{optimizer: "nag", learningRate: 0.5, momentum: 0.9, schedule: c.schedule, warmEpochs: c.warm, epochs: 4}).update(10)
		if err != nil {
			t.Errorf("%s with %v epochs of warm-up: %v", c.schedule, c.warm, err)
			continue
		}
		for step, want := range c.want {
			if got := cfg.LearningRateAt(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s with %v epochs of warm-up: the rate of step %d is %v, want %v", c.schedule, c.warm, step, got, want)
			}
		}
	}
}

// Weights of convolutions and of the linear layer decay, and nothing else.
func TestDecayWeightsOnly(t *testing.T) {
	n, err := compile(settings{model: modelSettings{name: "resnet18", stem: "cifar", width: 2, dtype: "float32", batch: 2, devices: []string{"cpu:0"}, threads: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	programs := n.training
	cfg := optim.Config{Name: "nag", WeightDecay: 5e-4, WeightDecayFactors: program.WithoutDecay(programs[0].Params())}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	decayed := 0
	for _, p := range programs[0].Params() {
		want := 0.0
		if strings.Contains(p.Name, "conv") || strings.HasSuffix(p.Name, "downsample.0.weight") || p.Name == "fc.weight" {
			want = 1
			decayed++
		}
		if got := cfg.Factors(p.Name).WeightDecay; got != want {
			t.Errorf("%s %v: weight decay times %v, want %v", p.Name, p.Shape, got, want)
		}
	}
	if decayed != 21 {
		t.Errorf("%d parameters decay, want the 20 convolutions and the linear layer", decayed)
	}
}

// Labels are smoothed and classes have weights in training, not where the network is judged.
func TestLabelsAreSmoothedAndWeighedInTrainingAlone(t *testing.T) {
	for _, training := range []bool{true, false} {
		m, err := buildModel(settings{
			model:    modelSettings{name: "resnet18", stem: "cifar", width: 1, batch: 2},
			training: trainingSettings{smoothing: 0.25, classWeights: []float64{1, 2, 1, 1, 1, 1, 1, 1, 1, 1}},
		}, training)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		if training {
			want = 0.25
		}
		loss := m.loss.Op().(*op.SoftmaxCrossEntropy)
		if loss.Smoothing != want || (loss.Weights != nil) != training {
			t.Errorf("training %v: smoothing is %v and the weights %v, want %v and weights in training alone", training, loss.Smoothing, loss.Weights, want)
		}
	}
}

// Launch need not start a program again that cannot work with its flags, its files or its folder.
// It hears of that.
func TestErrorsThatNoRestartCanMendAreTold(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(exitreport.Variable, report)
	used := t.TempDir()
	if err := cifar10(t, "--epochs", "1", "--out", t.TempDir(), "--checkpoint-dir", used); err != nil {
		t.Fatal(err)
	}
	pickle, damaged := filepath.Join(used, "model.pth"), filepath.Join(used, "model.safetensors")
	for path, text := range map[string]string{pickle: "\x80\x02}q", damaged: "{}"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := exitreport.Take(report); got.Cause != "" {
		t.Errorf("a run that went well: got %+v, want none", got)
	}
	for _, tc := range []struct {
		cause exitreport.Cause
		flags []string
	}{
		{exitreport.Program, []string{"--epochz", "1"}},
		{exitreport.Program, []string{"--epochs", "0"}},
		{exitreport.MissingFile, []string{"--data", filepath.Join(t.TempDir(), "nothing")}},
		{exitreport.MissingFile, []string{"--init-from", filepath.Join(t.TempDir(), "nothing.safetensors")}},
		{exitreport.OtherRun, []string{"--checkpoint-dir", used}},
		{exitreport.NoResume, []string{"--checkpoint-dir", used, "--resume", "--resume-step", "7"}},
		{exitreport.NoResume, []string{"--checkpoint-dir", used, "--resume", "--width", "4"}},
		{exitreport.Usage, []string{"--kvstore", "dist_fast"}},
		{exitreport.Usage, []string{"--threads", "99999999"}},
		{exitreport.Usage, []string{"--freeze", "nothing*"}},
		{exitreport.Usage, []string{"--freeze", "["}},
		{exitreport.Usage, []string{"--init-from", used, "--width", "4"}},
		{exitreport.Usage, []string{"--init-from", used, "--init-skip", "nothing*"}},
		{exitreport.Usage, []string{"--init-from", used, "--init-skip", "["}},
		{exitreport.Usage, []string{"--init-from", used, "--init-rename", "nothing*=*"}},
		{exitreport.Usage, []string{"--init-from", pickle}},
		{exitreport.Damaged, []string{"--init-from", damaged}},
	} {
		err := cifar10(t, append([]string{"--out", t.TempDir()}, tc.flags...)...)
		if got := exitreport.Take(report); err == nil || got.Cause != tc.cause || got.Text != err.Error() {
			t.Errorf("%q: got error %v and report %+v, want cause %s", tc.flags, err, got, tc.cause)
		}
	}
}

// silentJob is the environment of a worker whose scheduler takes connections and does not answer,
// as one that is ending.
func silentJob(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	for name, value := range map[string]string{"DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": host, "DMLC_PS_ROOT_PORT": port, "DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "PARAGON_START_TIMEOUT": "3s"} {
		t.Setenv(name, value)
	}
}

// A worker that waits for its job ends as soon as it is told to.
func TestAWorkerThatWaitsForItsJobEndsWhenTold(t *testing.T) {
	silentJob(t)
	leave := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(leave) })
	begin := time.Now()
	s := smallRun(t)
	s.leave = leave
	err := train(t.Context(), s)
	if took := time.Since(begin); !errors.Is(err, worker.ErrStopped) || took > 2*time.Second {
		t.Errorf("got error %v after %s, want %v at once", err, took, worker.ErrStopped)
	}
}
