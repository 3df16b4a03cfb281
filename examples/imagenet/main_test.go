package main

import (
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/examples/internal/program"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/testing/metricstest"
	"github.com/paragon-train/paragon/internal/testing/photos"
	"github.com/paragon-train/paragon/internal/testing/testbuild"
	"github.com/paragon-train/paragon/kvstore"
)

// makeSets makes a folder with train and val of made photographs in six classes.
func makeSets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, n := range map[string]int{"train": 24, "val": 12} {
		if err := photos.Make(filepath.Join(dir, name), photos.Config{Images: n, Classes: 6, Seed: uint64(n), Largest: 64}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// imagenet runs the command with a narrow network on small images and these flags.
func imagenet(t *testing.T, flags ...string) error {
	t.Helper()
	app := newApp()
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	return app.RunContext(t.Context(), append([]string{"imagenet", "--model", "resnet18", "--width", "2", "--image-size", "32", "--batch", "8", "--epochs", "1"}, flags...))
}

var hashLine = regexp.MustCompile(`(?m)^parameters [0-9a-f]{64}$`)

func TestTrainsOnAFolderAndDraws(t *testing.T) {
	dir, out := makeSets(t), t.TempDir()
	text := metricstest.Text(t, func() {
		if err := imagenet(t, "--data", dir, "--out", out, "--print-hash"); err != nil {
			t.Fatal(err)
		}
	})
	metricstest.WantSteps(t, metricstest.Metrics(text), 1, "accuracy", "top5", "loss")
	for _, want := range []string{"Images: 24 of 3×32×32 to train on, 12 to evaluate, 6 classes", "% of the time waiting for data"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	f, err := os.Open(filepath.Join(out, "imagenet.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("picture: %v", err)
	}
}

// A run has the same bits whatever the images lie in, and however many goroutines read them; with
// other augmentation it has others.
func TestFormatsAndReadersGiveTheSameBits(t *testing.T) {
	dir := makeSets(t)
	records, shards := t.TempDir(), t.TempDir()
	for _, name := range []string{"train", "val"} {
		if err := photos.Record(filepath.Join(records, name+".rec"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		made := t.TempDir()
		if err := photos.Tars(made, filepath.Join(dir, name), 2); err != nil {
			t.Fatal(err)
		}

		// Shards are named as launch data pack names them.
		for i := range 2 {
			if err := os.Rename(filepath.Join(made, fmt.Sprintf("shard-%06d.tar", i)), filepath.Join(shards, fmt.Sprintf("%s-%06d.tar", name, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	hash := func(flags ...string) string {
		text := metricstest.Text(t, func() {
			if err := imagenet(t, append(flags, "--out", t.TempDir(), "--print-hash")...); err != nil {
				t.Fatal(err)
			}
		})
		return hashLine.FindString(text)
	}
	want := hash("--data", dir, "--readers", "1")
	if want == "" {
		t.Fatal("no hash was printed")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(records)))
	defer server.Close()
	for _, flags := range [][]string{{"--data", dir, "--readers", "7"}, {"--data", server.URL, "--classes", "6"}, {"--data", records, "--classes", "6"}, {"--data", shards, "--classes", "6"}, {"--train-data", filepath.Join(records, "train.rec"), "--val-data", filepath.Join(dir, "val"), "--classes", "6"}} {
		if got := hash(flags...); got != want {
			t.Errorf("%q: got %s, want %s", flags, got, want)
		}
	}
	for _, flags := range [][]string{{"--mixup", "0.2", "--cutmix", "1"}, {"--auto-augment", "trivial"}, {"--auto-augment", "rand"}, {"--random-erasing", "1"}, {"--order", "contiguous"}} {
		if got := hash(append(flags, "--data", dir)...); got == want || got == "" {
			t.Errorf("%q: got %s, want another hash", flags, got)
		}
	}
}

func TestGoesOnFromACheckpointWithItsData(t *testing.T) {
	dir := makeSets(t)
	flags := []string{"--data", dir, "--out", t.TempDir(), "--checkpoint-dir", t.TempDir(), "--checkpoint-steps", "1"}
	if err := imagenet(t, append(flags, "--max-steps", "1")...); err != nil {
		t.Fatal(err)
	}
	if err := imagenet(t, append(flags, "--resume", "--max-steps", "2")...); err != nil {
		t.Errorf("resume: %v", err)
	}
	images, err := filepath.Glob(filepath.Join(dir, "train", "*", "*.jpg"))
	if err != nil || len(images) != 24 {
		t.Fatalf("got %d images, error %v", len(images), err)
	}
	if err := os.Remove(images[0]); err != nil {
		t.Fatal(err)
	}
	if err := imagenet(t, append(flags, "--resume")...); err == nil || !strings.Contains(err.Error(), "other data: 23 examples here and 24 there") {
		t.Errorf("resume with an image less: got error %v, want one that says so", err)
	}
}

func TestDamagedImagesAreLeftOutWithinTheBudget(t *testing.T) {
	dir := makeSets(t)
	images, err := filepath.Glob(filepath.Join(dir, "*", "*", "*.jpg"))
	if err != nil {
		t.Fatal(err)
	}

	// One is of train and one of val.
	for _, path := range []string{images[3], images[len(images)-1]} {
		if err := os.Truncate(path, 200); err != nil {
			t.Fatal(err)
		}
	}
	text := metricstest.Text(t, func() {
		if err := imagenet(t, "--data", dir, "--out", t.TempDir(), "--bad-examples", "1"); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []string{"1 damaged example left out on all workers", "1 damaged example left out of the evaluation"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	name, _ := filepath.Rel(filepath.Join(dir, "train"), images[3])
	said, code := program.Ending(imagenet(t, "--data", dir, "--out", t.TempDir()))
	if code != 1 || !strings.Contains(said, filepath.ToSlash(name)) || !strings.Contains(said, "cut short") || !strings.Contains(said, "(--bad-examples N)") {
		t.Errorf("without a budget: got exit code %d and %q, want 1, and one that names %s and the flag", code, said, name)
	}
}

func TestASampleIsSomethingToTrainOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "photos")
	text := metricstest.Text(t, func() {
		if err := imagenet(t, "--sample", dir); err != nil {
			t.Fatal(err)
		}
		if err := imagenet(t, "--data", dir, "--out", t.TempDir(), "--max-steps", "1"); err != nil {
			t.Fatal(err)
		}
	})
	if want := "Images: 2000 of 3×32×32 to train on, 400 to evaluate, 10 classes"; !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant %q in it", text, want)
	}
	if err := imagenet(t, "--sample", dir); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a second time: got error %v, want one", err)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	t.Setenv(exitreport.Variable, report)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "--data is not given"},
		{[]string{"--data", t.TempDir()}, "has none of train, train.rec"},
		{[]string{"--data", "x", "--image-size", "8"}, "--image-size is 8"},
		{[]string{"--data", "x", "--auto-augment", "all"}, `--auto-augment is "all"`},
		{[]string{"--data", "x", "--order", "sorted"}, `--order is "sorted"`},
		{[]string{"--data", "x", "--order-window", "0"}, "--order-window is 0"},
		{[]string{"--data", makeSets(t), "--order", "blocks"}, "--order is blocks and the training images have none"},
		{[]string{"--data", "x", "--mixup", "-1"}, "--mixup is -1"},
		{[]string{"--data", "x", "--random-erasing", "2"}, "--random-erasing is 2"},
		{[]string{"--data", "x", "--label-smoothing", "1"}, "--label-smoothing is 1"},
		{[]string{"--data", "x", "--bad-examples", "-1"}, "--bad-examples -1"},
		{[]string{"--data", "x", "--optimizer", "newton"}, "newton"},
		{[]string{"--data", "x", "--dtype", "int3"}, "--dtype"},
		{[]string{"--data", makeSets(t), "--classes", "2"}, "--classes is 2 and the data has 6"},
		{[]string{"--data", makeSets(t), "--model", "vgg"}, `--model is "vgg"`},
		{[]string{"--train-data", filepath.Join(t.TempDir(), "nothing"), "--val-data", "x"}, "nothing"},
	} {
		err := imagenet(t, append(c.flags, "--out", t.TempDir())...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want one with %q", c.flags, err, c.want)
		}
	}
}

// A job of two workers with two servers has the same parameters on both.
func TestAJobOfTwoWorkersTrains(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("builds two programs: runs with PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	testbuild.NeedsWorkspace(t)
	bin := t.TempDir()
	if err := testbuild.Programs(bin, "launch", "examples/imagenet"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "launch"), "-n", "2", "-s", "2", "--", filepath.Join(bin, "imagenet"), "--data", makeSets(t), "--image-size", "64", "--epochs", "1",
		"--model", "resnet18", "--width", "4", "--batch", "4", "--auto-augment", "trivial", "--random-erasing", "0.1", "--print-hash", "--out", t.TempDir())
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	hashes := regexp.MustCompile(`parameters [0-9a-f]{64}`).FindAllString(string(out), -1)
	if len(hashes) != 2 || len(slices.Compact(hashes)) != 1 {
		t.Errorf("got hashes %q, want the same one of two workers:\n%s", hashes, out)
	}
}

// Images that may not be read end the job for good: launch --restarts does not start it again.
func TestRefusedCredentialsAreFinal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	for _, flags := range [][]string{{"--data", server.URL}, {"--train-data", server.URL + "/train.rec", "--val-data", "x"}} {
		if err := imagenet(t, append(flags, "--out", t.TempDir())...); !errors.Is(err, kvstore.ErrFinal) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%q: got error %v, want one that is %v and %v", flags, err, kvstore.ErrFinal, fs.ErrPermission)
		}
	}
}
