package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/data/text"
	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/testing/metricstest"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/worker"
)

// textFile is a text of a few kilobytes.
func textFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("to be, or not to be, that is the question: ", 60)), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// gpt runs the command with a small model on a small text and with these flags.
func gpt(t *testing.T, flags ...string) error {
	t.Helper()
	app := newApp()
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	small := []string{"gpt", "--text", textFile(t), "--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch", "8", "--sample", "0", "--out", t.TempDir()}
	return app.RunContext(t.Context(), append(small, flags...))
}

func TestTrainsResumesAndWrites(t *testing.T) {
	flags := []string{"--checkpoint-dir", t.TempDir(), "--sample", "40", "--temperature", "0", "--prompt", "to be", "--lr", "0.02", "--warmup-steps", "2"}
	text := metricstest.Text(t, func() {
		if err := gpt(t, append(flags, "--epochs", "6")...); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{"Text: 2580 bytes in windows of 16, 145 windows to train on, 16 to evaluate", "Epoch 5: perplexity ", "Curves: ", "\nto be"} {
		if !strings.Contains(text, want) {
			t.Errorf("the program printed\n%s\nwant %q in it", text, want)
		}
	}
	metricstest.WantSteps(t, metricstest.Metrics(text), 6, "loss")
	if err := gpt(t, append(flags, "--epochs", "1")...); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a new run in the same folder: got error %v, want one that names the other run", err)
	}
	if err := gpt(t, append(flags, "--epochs", "6", "--resume")...); err != nil {
		t.Errorf("resume: %v", err)
	}
	other := textFile(t)
	if err := os.WriteFile(other, []byte(strings.Repeat("another text ", 300)), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := gpt(t, append(flags, "--epochs", "7", "--resume", "--text", other)...); err == nil || !strings.Contains(err.Error(), "other data") {
		t.Errorf("resume with another text: got error %v, want one that says so", err)
	}
}

// A run that stops in the middle of an epoch and goes on has the bits of one that did not stop.
func TestAResumedRunIsTheRun(t *testing.T) {
	dir := t.TempDir()
	hash := func(flags ...string) string {
		t.Helper()
		text := metricstest.Text(t, func() {
			if err := gpt(t, append([]string{"--epochs", "2", "--print-hash", "--dropout", "0.1", "--schedule", "constant", "--warmup-steps", "0"}, flags...)...); err != nil {
				t.Fatal(err)
			}
		})
		for line := range strings.Lines(text) {
			if hash, is := strings.CutPrefix(line, "parameters "); is {
				return hash
			}
		}
		t.Fatalf("no hash in %q", text)
		return ""
	}
	want := hash("--max-steps", "30")
	hash("--max-steps", "23", "--checkpoint-dir", dir, "--checkpoint-steps", "7")
	if got := hash("--max-steps", "30", "--checkpoint-dir", dir, "--resume"); got != want {
		t.Errorf("resumed: the parameters' hash is %s, want %s", got, want)
	}
}

// A model that was trained writes without more training.
func TestSamplesFromACheckpoint(t *testing.T) {
	dir := t.TempDir()
	if err := gpt(t, "--checkpoint-dir", dir, "--epochs", "1"); err != nil {
		t.Fatal(err)
	}
	write := func(seed string) string {
		return metricstest.Text(t, func() {
			if err := gpt(t, "--epochs", "0", "--init-from", dir, "--sample", "50", "--sample-seed", seed, "--top-k", "20", "--top-p", "0.9"); err != nil {
				t.Fatal(err)
			}
		})
	}
	if one, again, two := write("1"), write("1"), write("2"); one != again || one == two {
		t.Error("the seed of the sample does not decide what is written")
	}
}

// A run's checkpoints have what an export to Hugging Face's files needs, and such files are read.
func TestGoesToHuggingFacesFilesAndBack(t *testing.T) {
	for _, bias := range []string{"--no-bias=false", "--no-bias"} {
		dir, folder := t.TempDir(), filepath.Join(t.TempDir(), "hf")
		if err := gpt(t, "--epochs", "1", "--checkpoint-dir", dir, bias); err != nil {
			t.Fatal(err)
		}
		if _, err := checkpoint.ExportAs(t.Context(), dir, folder, checkpoint.ExportConfig{Format: "hf"}); err != nil {
			t.Fatal(err)
		}
		cfg, err := worker.GPTConfig(t.Context(), folder)
		if want := (nn.GPTConfig{Layers: 1, Heads: 2, Width: 16, Positions: 16, Vocabulary: 256, Activation: "none", Epsilon: 1e-5}); err != nil || !reflect.DeepEqual(cfg, want) {
			t.Errorf("got %+v (%v), want %+v", cfg, err, want)
		}
		written := func(from string) string {
			return metricstest.Text(t, func() {
				if err := gpt(t, "--init-from", from, "--epochs", "0", "--sample", "30", "--temperature", "0", "--prompt", "to be", bias); err != nil {
					t.Fatal(err)
				}
			})
		}
		own, theirs := written(dir), written(folder)
		if at := strings.LastIndex(own, "to be"); at < 0 || !strings.HasSuffix(theirs, own[at:]) {
			t.Errorf("%s: from Hugging Face's files the model writes\n%s\nwant as from the checkpoint\n%s", bias, theirs, own)
		}
	}
}

// What the config.json of --init-from says counts, and flags that say otherwise are refused.
func TestStartsAsTheConfigSays(t *testing.T) {
	dir := t.TempDir()
	cfg := nn.GPTConfig{Layers: 2, Heads: 1, Width: 8, Positions: 16, Vocabulary: 300, Activation: "tanh"}
	if err := worker.WriteGPTConfig(t.Context(), dir, cfg); err != nil {
		t.Fatal(err)
	}
	start := func(m modelSettings, mismatched bool) (nn.GPTConfig, error) {
		s := settings{model: m, start: startSettings{file: dir}, text: textSettings{tokenizer: "its own"}}
		s.start.importing.IgnoreMismatched = mismatched
		err := s.startAs(t.Context())
		return s.model.gpt(), err
	}
	flags := modelSettings{layers: 4, heads: 4, width: 128, context: 16, vocabulary: 256, dropout: 0.5}
	want := cfg
	want.Dropout, want.Epsilon = 0.5, 1e-5
	if got, err := start(flags, false); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if got, err := start(flags, true); err != nil || got.Width != 128 || got.Activation != "none" {
		t.Errorf("with --init-ignore-mismatched: got %+v (%v), want what the flags say", got, err)
	}
	for want, m := range map[string]modelSettings{
		"--width is 128, and the model of --init-from has 8":   {given: []string{"layers", "width"}, layers: 2, width: 128, context: 16},
		"--context is 17, want at most the 16 positions":       {context: 17},
		"--tokenizer has 301 tokens, and the model of --init-": {context: 16, vocabulary: 301},
	} {
		if _, err := start(m, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// With other heads, or another GELU, the weights fit and compute something else: the config.json
// beside them is found for a folder, a checkpoint and a file in it, and for a run that goes on.
func TestWeightsAreThoseOfTheirConfig(t *testing.T) {
	dir := t.TempDir()
	if err := gpt(t, "--checkpoint-dir", dir, "--max-steps", "2"); err != nil {
		t.Fatal(err)
	}
	steps, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil || len(steps) == 0 {
		t.Fatalf("got checkpoints %q (%v), want at least one", steps, err)
	}
	folder := filepath.Join(t.TempDir(), "hf")
	if _, err := checkpoint.ExportAs(t.Context(), dir, folder, checkpoint.ExportConfig{Format: "hf"}); err != nil {
		t.Fatal(err)
	}
	tokens := t.TempDir()
	if err := worker.WriteGPTConfig(t.Context(), tokens, nn.GPTConfig{Layers: 1, Heads: 2, Width: 16, Positions: 16, Vocabulary: 300, Activation: "tanh"}); err != nil {
		t.Fatal(err)
	}
	const sample = "--epochs 0 --sample 5 --temperature 0 --init-from "
	for _, c := range []struct{ flags, want string }{
		{sample + dir, ""},
		{sample + dir + " --heads 4", "--heads is 4, and the model of --init-from has 2"},
		{sample + steps[0] + " --heads 4", "--heads is 4, and the model of --init-from has 2"},
		{sample + filepath.Join(folder, "model.safetensors") + " --heads 4", "--heads is 4, and the model of --init-from has 2"},
		{"--resume --max-steps 3 --heads 4 --checkpoint-dir " + dir, "--heads is 4, and the model of the run in " + dir + " has 2"},
		{sample + tokens, "bytes are 256 tokens, and the model of --init-from has 300: want --tokenizer"},
		{sample + filepath.Join(dir, "none"), "want a model that each worker can read"},
	} {
		err := gpt(t, strings.Fields(c.flags)...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want one with %q", c.flags, err, c.want)
		}
	}
}

func TestTrainsWithOtherFlags(t *testing.T) {
	for _, flags := range [][]string{
		{"--devices", "cpu:0,cpu:1", "--accumulation", "1", "--no-bias"},
		{"--kvstore", "local", "--update-on-worker", "--dtype", "bf16"},
		{"--kvstore", "dist_async", "--staleness", "1"},
		{"--local-steps", "2", "--schedule", "linear"},
		{"--clip", "0.5"},
		{"--adapt", "--max-batch", "16", "--initial-batch", "4", "--rule", "sqrt"},
		{"--freeze", "transformer.wpe.*", "--early-stop", "1", "--eval-steps", "1", "--schedule", "constant"},
	} {
		if err := gpt(t, append(flags, "--max-steps", "3", "--epochs", "1")...); err != nil {
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
		{[]string{"--batch", "0"}, "--batch is 0, want 1 to 65536"},
		{[]string{"--heads", "3"}, "--heads is 3 with --width 16"},
		{[]string{"--layers", "0"}, "--layers is 0"},
		{[]string{"--width", "99999999"}, "--width is 99999999"},
		{[]string{"--context", "0"}, "--context is 0"},
		{[]string{"--context", "900"}, "--text has 258 bytes to judge the model by, want more than the 900 of --context"},
		{[]string{"--tokenizer", "/nowhere/gpt2"}, "--tokenizer: text: stat /nowhere/gpt2"},
		{[]string{"--tokenizer", "main.go"}, "--tokenizer: text: main.go line 1 column 1: tokenizer: "},
		{[]string{"--dropout", "1"}, "--dropout is 1"},
		{[]string{"--validation", "0"}, "--validation is 0"},
		{[]string{"--text", "/nowhere/text"}, "/nowhere/text"},
		{[]string{"--text", "["}, "--text ["},
		{[]string{"--devices", ""}, "--devices is"},
		{[]string{"--devices", "tpu:0"}, `"tpu:0"`},
		{[]string{"--dtype", "fp8"}, `--dtype: nn: number type "fp8"`},
		{[]string{"--dtype", "fp16"}, "--dtype fp16 with --devices cpu:0"},
		{[]string{"--epochs", "-1"}, "--epochs is -1"},
		{[]string{"--epochs", "0"}, "--epochs is 0 without --init-from"},
		{[]string{"--eval-steps", "-1"}, "--eval-steps is -1"},
		{[]string{"--early-stop", "-1"}, "--early-stop is -1"},
		{[]string{"--early-stop", "2", "--kvstore", "dist_async"}, "--early-stop with --kvstore dist_async"},
		{[]string{"--accumulation", "-1"}, "--accumulation is -1"},
		{[]string{"--schedule", "square"}, `--schedule is "square"`},
		{[]string{"--lr", "-1"}, "LearningRate"},
		{[]string{"--beta2", "2"}, "Beta2"},
		{[]string{"--clip", "-1"}, "ClipGlobalNorm"},
		{[]string{"--clip", "1", "--local-steps", "2"}, "--clip with --kvstore dist_async, --local-steps or --update-on-worker"},
		{[]string{"--sample", "-1"}, "--sample is -1"},
		{[]string{"--prompt", ""}, "--prompt is empty"},
		{[]string{"--temperature", "-1"}, "Temperature is -1"},
		{[]string{"--top-k", "-1"}, "TopK is -1"},
		{[]string{"--top-p", "2"}, "TopP is 2"},
		{[]string{"--max-batch", "64"}, "need --adapt"},
		{[]string{"--adapt", "--local-steps", "2"}, "--adapt with --local-steps 2, want 0"},
		{[]string{"--kvstore", "elsewhere"}, `"elsewhere"`},
		{[]string{"--compression", "3bit"}, `"3bit"`},
		{[]string{"--local-steps", "-1"}, "--local-steps is -1"},
		{[]string{"--staleness", "1"}, "want dist_async"},
		{[]string{"--resume"}, "--checkpoint-dir"},
		{[]string{"--checkpoint-steps", "-1"}, "--checkpoint-steps is -1"},
		{[]string{"--freeze", "nothing*"}, `--freeze: "nothing*" matches no parameter`},
		{[]string{"--out", "/dev/null/out"}, "--out"},
	} {
		if err := gpt(t, test.flags...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got error %v, want one with %q", test.flags, err, test.want)
		}
	}
}

// Launch need not start a program again that cannot work with its flags or its files.
func TestErrorsThatNoRestartCanMendAreTold(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(exitreport.Variable, report)
	for _, tc := range []struct {
		cause exitreport.Cause
		flags []string
	}{
		{exitreport.Program, []string{"--epochz", "1"}},
		{exitreport.Program, []string{"--width", "0"}},
		{exitreport.MissingFile, []string{"--text", filepath.Join(t.TempDir(), "nothing")}},
		{exitreport.MissingFile, []string{"--init-from", filepath.Join(t.TempDir(), "nothing.safetensors")}},
		{exitreport.Usage, []string{"--freeze", "nothing*"}},
	} {
		err := gpt(t, tc.flags...)
		if got := exitreport.Take(report); err == nil || got.Cause != tc.cause || got.Text != err.Error() {
			t.Errorf("%q: got error %v and report %+v, want cause %s", tc.flags, err, got, tc.cause)
		}
	}
}

func TestStopsAsAsked(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	s := settings{
		text:     textSettings{files: []string{textFile(t)}, validation: 0.1},
		model:    modelSettings{layers: 1, heads: 1, width: 8, context: 16, dtype: "float32", batch: 8, devices: []string{"cpu:0"}},
		training: trainingSettings{epochs: 1, learningRate: 0.001, leastRate: -1, beta2: 0.99, schedule: "constant"},
		store:    storeSettings{name: "dist_sync", staleness: -1},
		output:   program.Output{Dir: t.TempDir()},
		stop:     stop,
	}
	s.checkpoint.Dir = t.TempDir()
	err := train(t.Context(), s)
	if !errors.Is(err, worker.ErrStopped) {
		t.Errorf("got error %v, want ErrStopped", err)
	}
	if text, code := program.Ending(err); text != "stopped on request, with a checkpoint; --resume continues from it" || code != 143 {
		t.Errorf("got %q and exit code %d", text, code)
	}
}

// A model's tokenizer makes the tokens, and its text is what the model writes.
func TestTrainsOnTokens(t *testing.T) {
	const tokenizer = "../../data/text/testdata/gpt2.json"
	dir := t.TempDir()
	output := metricstest.Text(t, func() {
		if err := gpt(t, "--tokenizer", tokenizer, "--epochs", "4", "--lr", "0.02", "--warmup-steps", "2", "--sample", "30", "--prompt", "to be", "--checkpoint-dir", dir); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{" tokens in windows of 16, ", "Epoch 3: perplexity ", "\nto be"} {
		if !strings.Contains(output, want) {
			t.Errorf("the program printed\n%s\nwant %q in it", output, want)
		}
	}
	bytes := textSettings{files: []string{textFile(t)}, validation: 0.1}
	tokens := bytes
	tokens.tokenizer = tokenizer
	opened, err := tokens.open()
	if err != nil {
		t.Fatal(err)
	}
	ofBytes, _, err := bytes.load(text.Bytes{}, 16)
	if err != nil {
		t.Fatal(err)
	}
	ofTokens, _, err := tokens.load(opened, 16)
	if err != nil {
		t.Fatal(err)
	}
	if ofTokens.NumTokens() >= ofBytes.NumTokens() || ofTokens.Fingerprint() == ofBytes.Fingerprint() {
		t.Errorf("got %d tokens of %d bytes, want fewer and another fingerprint", ofTokens.NumTokens(), ofBytes.NumTokens())
	}
	if err := gpt(t, "--checkpoint-dir", dir, "--epochs", "5", "--resume"); err == nil {
		t.Error("bytes go on from a checkpoint of tokens")
	}
}

// The text by default is there where Go is, which these tests need.
func TestTheDefaultTextIsGosSource(t *testing.T) {
	train, test, err := (&textSettings{validation: 0.1}).load(text.Bytes{}, 64)
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&textSettings{}).read()
	if err != nil {
		t.Fatal(err)
	}
	if n := train.NumTokens() + test.NumTokens(); n < 1_000_000 || int(n) != len(all) || !strings.Contains(string(all), "package bufio") {
		t.Errorf("got %d bytes, want a million or more of Go", n)
	}
	t.Setenv("GOROOT", "")
	t.Setenv("PATH", "")
	if _, _, err := (&textSettings{validation: 0.1}).load(text.Bytes{}, 64); err == nil || !strings.Contains(err.Error(), "Go is not installed") {
		t.Errorf("without Go: got error %v, want one that says so", err)
	}
}

// Tables and weights of linear layers decay, and nothing else.
func TestWhatDecays(t *testing.T) {
	n, err := compile(settings{model: modelSettings{layers: 2, heads: 2, width: 8, context: 8, vocabulary: 256, dtype: "float32", batch: 2, devices: []string{"cpu:0"}, threads: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	factors := program.WithoutDecay(n.training[0].Params())
	decayed := 0
	for _, p := range n.training[0].Params() {
		spared := slices.ContainsFunc(factors, func(f optim.Factor) bool { return f.Keys == p.Name })
		if want := strings.HasSuffix(p.Name, ".bias") || strings.Contains(p.Name, ".ln_"); spared != want {
			t.Errorf("%s %v is spared the decay: %t, want %t", p.Name, p.Shape, spared, want)
		}
		if !spared {
			decayed++
		}
	}
	if decayed != 2+2*4 {
		t.Errorf("%d parameters decay, want the two tables and four weights of each layer", decayed)
	}
}
