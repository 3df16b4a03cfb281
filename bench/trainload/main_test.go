package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/photos"
)

// makeSets makes a folder of images, and packs it.
func makeSets(t *testing.T) (folder, rec, tar string) {
	t.Helper()
	dir := t.TempDir()
	folder, rec, tar = filepath.Join(dir, "made"), filepath.Join(dir, "rec", "set.rec"), filepath.Join(dir, "tar", "shard-000000.tar")
	if err := photos.Make(folder, photos.Config{Images: 12, Classes: 2, Seed: 1, Largest: 48}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(rec), filepath.Dir(tar)} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := photos.Record(rec, folder); err != nil {
		t.Fatal(err)
	}
	if err := photos.Tars(filepath.Dir(tar), folder, 1); err != nil {
		t.Fatal(err)
	}
	return folder, rec, tar
}

// small is a run of no time.
var small = []string{"--width", "1", "--image-size", "32", "--batch", "2", "--steps", "2", "--warm", "1", "--turns", "1"}

// All places train in turns, and the table has the ratio of the rates of each to that on pixels in
// memory.
func TestEachPlaceStandsBesidePixelsInMemory(t *testing.T) {
	folder, rec, tar := makeSets(t)
	for _, c := range []struct {
		flags, places []string
	}{
		{[]string{"--data", folder}, []string{"folder-disk"}},
		{[]string{"--data", rec + "," + tar, "--latency", "1ms"}, []string{"rec-disk", "rec-bucket", "rec-cache", "tar-disk", "tar-bucket", "tar-cache"}},
	} {
		var out bytes.Buffer
		// So few steps say nothing of ratios.
		if err := run(t.Context(), append(c.flags, small...), &out); err != nil && !strings.Contains(err.Error(), "of-memory, want at least 0.9") {
			t.Fatal(err)
		}
		wants := []string{"machine: ", "note: resnet18 of width 1, batches of 2, 32×32 pixels, float32, ", " 1 turns of 2 steps behind 1", "BenchmarkTrain/from=memory 2 "}
		for _, place := range c.places {
			wants = append(wants, "BenchmarkTrain/from="+place+" 2 ")
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q: got\n%s\nwant %q in it", c.flags, out.String(), want)
			}
		}
		if got, want := strings.Count(out.String(), " of-memory "), len(c.places); got != want {
			t.Errorf("%q: got\n%s\nwith %d ratios, want %d", c.flags, out.String(), got, want)
		}
	}
}

func TestMemoryIsMeasuredWithMuchAndLittleReadAhead(t *testing.T) {
	_, rec, _ := makeSets(t)
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"--data", rec, "--memory"}, small...), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"from=rec-disk/prefetch=4 1 ", "from=rec-disk/prefetch=64 1 ", "from=rec-disk/prefetch=1000 1 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

func TestFlagsThatMakeNoSenseAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		`"vgg"`:                   {"--data", "x", "--model", "vgg"},
		"--dtype":                 {"--data", "x", "--dtype", "float1"},
		"numbers of at least 1":   {"--data", "x", "--turns", "0"},
		"no such file or directo": {"--data", filepath.Join(t.TempDir(), "none.rec")},
	} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}

// spellsAt are spells of these rates, of which others took part of the cores in some.
func spellsAt(rates []float64, others ...float64) (spells []spell) {
	for i, rate := range rates {
		s := spell{images: 100, seconds: 100 / rate, cpu: 1, others: 0.01}
		if i < len(others) {
			s.others = others[i]
		}
		spells = append(spells, s)
	}
	return spells
}

// A place whose readers starve the training misses its bar by name, unless other processes
// disturbed every turn.
func TestReadersThatStarveTheTrainingMissTheBar(t *testing.T) {
	memory := spellsAt([]float64{100, 102, 98})
	for _, c := range []struct {
		name  string
		place []spell

		// want must be in the error; empty: there is none.
		want string
	}{
		{"as fast", spellsAt([]float64{99, 100, 98}), ""},
		{"starved", spellsAt([]float64{80, 82, 79}), "from=rec-disk: got 0.804 of-memory, want at least 0.95"},
		{"starved and once disturbed", spellsAt([]float64{100, 82, 79}, 0.3), "from=rec-disk: got 0.805 of-memory, want at least 0.95"},
		{"always disturbed", spellsAt([]float64{50, 40, 60}, 0.3, 0.4, 0.5), ""},
	} {
		missed := config{steps: 1, turns: 3}.table(new(bytes.Buffer), []*place{{name: "memory", spells: memory}, {name: "rec-disk", bar: diskBar, spells: c.place}})
		switch {
		case c.want == "" && len(missed) > 0:
			t.Errorf("%s: got error %v, want none", c.name, missed)
		case c.want != "" && (len(missed) != 1 || !strings.Contains(missed[0].Error(), c.want)):
			t.Errorf("%s: got errors %v, want one with %q", c.name, missed, c.want)
		}
	}
}
