package main

import (
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/metricstest"
)

// vit runs the command with a small set of synthetic images, two layers, large patches and these
// flags.
func vit(t *testing.T, flags ...string) error {
	t.Helper()
	app := newApp()
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	return app.RunContext(t.Context(), append([]string{"vit", "--train-examples", "24", "--test-examples", "8", "--batch", "8", "--layers", "2", "--patch", "8", "--out", t.TempDir()}, flags...))
}

func TestTrainsResumesAndDraws(t *testing.T) {
	out, checkpoints := t.TempDir(), t.TempDir()
	flags := []string{"--out", out, "--checkpoint-dir", checkpoints, "--epochs", "1", "--dropout", "0.1"}
	metricstest.WantSteps(t, metricstest.Printed(t, func() {
		if err := vit(t, flags...); err != nil {
			t.Fatal(err)
		}
	}), 1, "accuracy", "loss")
	f, err := os.Open(filepath.Join(out, "vit.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("picture: %v", err)
	}
	if err := vit(t, flags...); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a new run in the same folder: got error %v, want one that names the other run", err)
	}
	if err := vit(t, append(flags, "--resume")...); err != nil {
		t.Errorf("resume: %v", err)
	}
}

// A run that is cut in two ends with the parameters of one that is not.
func TestARunInTwoPartsIsTheSameBitForBit(t *testing.T) {
	hash := func(flags ...string) string {
		text := metricstest.Text(t, func() {
			if err := vit(t, append([]string{"--epochs", "2", "--warmup-epochs", "0.5", "--dropout", "0.1", "--print-hash"}, flags...)...); err != nil {
				t.Fatal(err)
			}
		})
		return regexp.MustCompile(`parameters [0-9a-f]{64}`).FindString(text)
	}
	whole, dir := hash(), t.TempDir()
	if part := hash("--checkpoint-dir", dir, "--checkpoint-steps", "1", "--max-steps", "2"); part == whole {
		t.Error("two steps end as six do")
	}
	if parts := hash("--checkpoint-dir", dir, "--resume"); whole == "" || parts != whole {
		t.Errorf("a resumed run ends with %q, want %q", parts, whole)
	}
}

func TestOtherFlags(t *testing.T) {
	for _, flags := range [][]string{
		{"--devices", "cpu:0,cpu:1", "--batch", "4", "--threads", "1", "--recompute"},
		{"--dtype", "bf16", "--kvstore", "local", "--augment=false", "--eval-steps", "1"},
		{"--kvstore", "dist_async", "--label-smoothing", "0"},
		{"--ema", "0.9", "--model", "vit-s", "--layers", "1"},
	} {
		if err := vit(t, append(flags, "--epochs", "1", "--max-steps", "2")...); err != nil {
			t.Errorf("%q: %v", flags, err)
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
		{[]string{"--model", "vit-x"}, `--model is "vit-x", want vit-ti, vit-s or vit-b`},
		{[]string{"--patch", "5"}, "--patch is 5, want 1, 2, 4, 8, 16 or 32"},
		{[]string{"--layers", "0"}, "--layers is 0, want 1 to 1024"},
		{[]string{"--dropout", "1"}, "--dropout is 1, want at least 0 and below 1"},
		{[]string{"--batch", "0"}, "--batch is 0, want 1 to 65536"},
		{[]string{"--devices", ""}, "--devices is"},
		{[]string{"--devices", "tpu:0"}, `"tpu:0"`},
		{[]string{"--dtype", "fp8"}, `--dtype: nn: number type "fp8"`},
		{[]string{"--dtype", "fp16"}, "Config.DType is fp16"},
		{[]string{"--threads", "-1"}, "Threads is -1"},
		{[]string{"--train-examples", "-1"}, "--train-examples is -1"},
		{[]string{"--test-examples", "99999999"}, "of synthetic images at most 1000000"},
		{[]string{"--download"}, "--download needs --data"},
		{[]string{"--data", "/nowhere"}, "/nowhere"},
		{[]string{"--epochs", "0"}, "--epochs is 0, want at least 1"},
		{[]string{"--eval-steps", "-1"}, "--eval-steps is -1"},
		{[]string{"--ema", "1"}, "--ema is 1, want above 0"},
		{[]string{"--lr", "-1"}, "LearningRate"},
		{[]string{"--warmup-epochs", "99"}, "--warmup-epochs is 99, want 0 to the 30 of --epochs"},
		{[]string{"--label-smoothing", "1"}, "--label-smoothing is 1"},
		{[]string{"--kvstore", "elsewhere"}, `"elsewhere"`},
		{[]string{"--resume"}, "--resume needs --checkpoint-dir"},
	} {
		if err := vit(t, test.flags...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got error %v, want one with %q", test.flags, err, test.want)
		}
	}
}

// The model has the published number of parameters, and matrices and patches alone decay: 4 of
// each layer, the patches and the head.
func TestParametersAndTheirDecay(t *testing.T) {
	config := models["vit-ti"]
	config.Patch, config.Classes = 4, 10
	s := settings{model: modelSettings{config: config, dtype: "float32", batch: 1, devices: []string{"cpu:0"}, threads: 1}, training: trainingSettings{epochs: 4, learningRate: 1, weightDecay: 0.05, warmEpochs: 1}}
	n, err := s.compile(0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	cfg := s.updateFor(100, 2, n.training[0])
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	parameters, decayed := 0, 0
	for _, p := range n.training[0].Params() {
		parameters += len(p.Value)
		isWeight := strings.HasSuffix(p.Name, "weight") && !strings.Contains(p.Name, "ln")
		if got := cfg.Factors(p.Name).WeightDecay; (got == 1) != isWeight {
			t.Errorf("%s: weight decay times %v", p.Name, got)
		}
		if isWeight {
			decayed++
		}
	}
	if parameters != 5_362_762 || config.Parameters(3, 32, 32) != parameters || decayed != 4*12+2 {
		t.Errorf("got %d parameters, of which %d tensors decay, want 5362762 and 50", parameters, decayed)
	}
	// 100 images are 50 steps of each of two workers.
	for step, want := range map[uint64]float64{24: 0.5, 49: 1, 125: 0.5, 200: 0} {
		if got := cfg.LearningRateAt(step); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("the rate of step %d is %v, want %v", step, got, want)
		}
	}
}
