package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/photos"
)

// Both train, from a folder and from a file on a web server, and the table has the ratio of their rates.
func TestBothTrainInTurns(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "made")
	if err := photos.Make(folder, photos.Config{Images: 12, Classes: 2, Seed: 1, Largest: 48}); err != nil {
		t.Fatal(err)
	}
	if err := photos.Record(filepath.Join(dir, "made.rec"), folder); err != nil {
		t.Fatal(err)
	}
	small := []string{"--width", "1", "--image-size", "32", "--batch", "2", "--steps", "2", "--turns", "1"}
	for _, flags := range [][]string{{"--data", folder}, {"--data", filepath.Join(dir, "made.rec"), "--latency", "1ms"}} {
		var out bytes.Buffer
		if err := run(t.Context(), append(flags, small...), &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"note: resnet18 of width 1, batches of 2, 32×32 pixels, 1 turns of 2 steps", "BenchmarkTrain/from=memory 1 ", "BenchmarkTrain/from=files/latency=", " of-memory "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: got\n%s\nwant %q in it", flags, out.String(), want)
			}
		}
	}
	if err := run(t.Context(), []string{"--data", folder, "--model", "vgg"}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), `"vgg"`) {
		t.Errorf("another model: got error %v", err)
	}
}
