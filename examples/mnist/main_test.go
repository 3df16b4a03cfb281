package main

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/testing/digits"
	"github.com/paragon-train/paragon/internal/testing/metricstest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/worker"
)

func TestLearnsDrawnDigits(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(digits.Draw(dir, "train", 800), digits.Draw(dir, "t10k", 100)); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	var epochs []worker.EpochInfo
	var err error
	printed := metricstest.Printed(t, func() {
		epochs, err = train(t.Context(), settings{data: dir, batch: 64, epochs: 6, device: "cpu:0", dtype: "auto", trainExamples: 640, out: out, optimizer: "sgd", learningRate: 0.05})
	})
	metricstest.WantSteps(t, printed, 6, "accuracy", "loss")
	if err != nil {
		t.Fatal(err)
	}
	last := epochs[len(epochs)-1]
	if last.Examples != 640 || last.Test == nil || last.Test.Accuracy < 0.9 {
		t.Errorf("after %d epochs of %d drawn digits: got scores %+v, want 640 and an accuracy of 0.9 or more", len(epochs), last.Examples, last.Test)
	}
	if files, err := filepath.Glob(filepath.Join(out, "tensorboard", "worker-0", "events.out.tfevents.*")); err != nil || len(files) != 1 {
		t.Errorf("TensorBoard's files are %q, %v, want one", files, err)
	}
}

func TestRefusesByName(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		settings settings
		want     string
	}{
		{settings{batch: 1, epochs: 1}, "--data is empty"},
		{settings{data: dir, epochs: 1}, "--batch is 0"},
		{settings{data: dir, epochs: 1, batch: 99999999}, "--batch is 99999999, want 1 to 65536"},
		{settings{data: dir, batch: 1}, "--epochs is 0"},
		{settings{data: dir, batch: 1, epochs: 1}, `--optimizer is "", want sgd or adam`},
		{settings{data: dir, batch: 1, epochs: 1, optimizer: "adam", learningRate: -1}, "--learning-rate: "},
		{settings{data: dir, batch: 1, epochs: 1, optimizer: "sgd", learningRate: 0.1}, dir + " has neither"},
	} {
		if _, err := train(t.Context(), test.settings); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got error %v, want one with %q", test.settings, err, test.want)
		}
	}
}

// A part of a model starts a run in which that part is frozen; what a file does not have is named.
func TestFineTunesAPartOfAModel(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(digits.Draw(dir, "train", 4), digits.Draw(dir, "t10k", 2)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "model.safetensors")
	err := checkpoint.Save(file, nil, []checkpoint.Tensor{
		checkpoint.Float32s("net.conv1.weight", []int{6, 1, 5, 5}, make([]float32, 150)), checkpoint.Float32s("net.conv1.bias", []int{6}, make([]float32, 6)),
	})
	if err != nil {
		t.Fatal(err)
	}
	others := checkpoint.ImportConfig{Rename: []string{"net.*=*"}, Skip: []string{"conv2.*", "fc*"}}
	with := settings{data: dir, batch: 2, epochs: 1, device: "cpu:0", dtype: "auto", out: t.TempDir(), optimizer: "sgd", learningRate: 0.05, initFrom: file, importing: others, freeze: []string{"conv1.*"}}
	if _, err := train(t.Context(), with); err != nil {
		t.Error(err)
	}
	with.importing.Skip = nil
	if _, err := train(t.Context(), with); !errors.Is(err, kvstore.ErrFinal) || !strings.HasPrefix(err.Error(), "--init-from: ") || !strings.Contains(err.Error(), "(--init-skip)") {
		t.Errorf("without the other layers: got error %v, want one that no restart can mend and that names flags", err)
	}
	frozen := with
	frozen.freeze = []string{"nothing*"}
	if _, err := train(t.Context(), frozen); !errors.Is(err, kvstore.ErrFinal) || !strings.Contains(err.Error(), "--freeze: ") {
		t.Errorf("a pattern that matches nothing: got error %v, want one that no restart can mend and that names the flag", err)
	}
	with.initFrom = ""
	if _, err := train(t.Context(), with); err == nil || !strings.Contains(err.Error(), "need --init-from") {
		t.Errorf("without a file: got error %v", err)
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
	dir := t.TempDir()
	if err := errors.Join(digits.Draw(dir, "train", 4), digits.Draw(dir, "t10k", 2)); err != nil {
		t.Fatal(err)
	}
	_, err := train(t.Context(), settings{data: dir, batch: 2, epochs: 1, device: "cpu:0", dtype: "auto", out: t.TempDir(), optimizer: "sgd", learningRate: 0.05, leave: leave})
	if took := time.Since(begin); !errors.Is(err, worker.ErrStopped) || took > 2*time.Second {
		t.Errorf("got error %v after %s, want %v at once", err, took, worker.ErrStopped)
	}
}
