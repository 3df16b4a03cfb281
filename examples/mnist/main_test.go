package main

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/metricstest"
	"github.com/paragon-train/paragon/worker"
)

// drawDigits writes idx files of n images: digit d is a bright bar in row 2d+4.
func drawDigits(t *testing.T, dir, prefix string, n int) {
	t.Helper()
	const side = 28
	random := rand.New(rand.NewPCG(uint64(n), 1))
	images := binary.BigEndian.AppendUint32(nil, 0x803)
	labels := binary.BigEndian.AppendUint32(nil, 0x801)
	for _, v := range []uint32{uint32(n), side, side} {
		images = binary.BigEndian.AppendUint32(images, v)
	}
	labels = binary.BigEndian.AppendUint32(labels, uint32(n))
	for range n {
		digit := random.IntN(10)
		labels = append(labels, byte(digit))
		for pixel := range side * side {
			value := random.IntN(60)
			if pixel/side == 2*digit+4 {
				value += 190
			}
			images = append(images, byte(value))
		}
	}
	for name, content := range map[string][]byte{"images-idx3-ubyte": images, "labels-idx1-ubyte": labels} {
		if err := os.WriteFile(filepath.Join(dir, prefix+"-"+name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLearnsDrawnDigits(t *testing.T) {
	dir := t.TempDir()
	drawDigits(t, dir, "train", 800)
	drawDigits(t, dir, "t10k", 100)
	out := t.TempDir()
	var epochs []worker.EpochInfo
	var err error
	printed := metricstest.Printed(t, func() {
		epochs, err = train(t.Context(), settings{data: dir, batch: 64, epochs: 6, device: "cpu:0", dtype: "auto", trainExamples: 640, out: out})
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
		{settings{data: dir, batch: 1, epochs: 1}, dir + " has neither"},
	} {
		if _, err := train(t.Context(), test.settings); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got error %v, want one with %q", test.settings, err, test.want)
		}
	}
}
