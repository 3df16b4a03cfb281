package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/internal/testing/metricstest"
)

// drawClicks writes rows like Criteo's: who sees "good" in the first category clicks.
func drawClicks(t *testing.T, n int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var text strings.Builder
	for range n {
		label := random.IntN(2)
		fmt.Fprint(&text, label)
		for range data.CriteoDense {
			fmt.Fprintf(&text, "\t%d", random.IntN(10))
		}
		for column := range data.CriteoCategorical {
			value := fmt.Sprintf("%08x", random.IntN(5))
			if column == 0 {
				value = []string{"0000bad0", "000900d0"}[label]
			}
			text.WriteString("\t" + value)
		}
		text.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "clicks.txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLearnsDrawnClicks(t *testing.T) {
	for _, buckets := range []int64{0, 100_000} {
		var area float64
		var err error
		metricstest.WantSteps(t, metricstest.Printed(t, func() {
			area, err = train(t.Context(), settings{path: drawClicks(t, 1000), out: t.TempDir(), batch: 20, epochs: 2, rows: data.CriteoConfig{Buckets: buckets, CacheBytes: 256 << 20}})
		}), 2, "auc", "loss")
		if err != nil || area < 0.95 {
			t.Errorf("--buckets %d: area under the curve of drawn clicks: got %v and error %v, want 0.95 or more", buckets, area, err)
		}
	}
}

// The form of the rows, and whether they fit into the cache, change no bit of a run.
func TestFormsOfTheSameRowsTrainAlike(t *testing.T) {
	text := drawClicks(t, 300)
	b, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text+".gz", zipped.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(url string, cache int64) string {
		t.Helper()
		return fmt.Sprint(metricstest.Printed(t, func() {
			if _, err := train(t.Context(), settings{path: url, out: t.TempDir(), batch: 20, epochs: 2, rows: data.CriteoConfig{CacheBytes: cache}}); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}))
	}
	want := run(text, 256<<20)
	// testdata/clicks.parquet has the same rows.
	for _, url := range []string{"file://" + text, text + ".gz", "testdata/clicks.parquet"} {
		if got := run(url, 256<<20); got != want {
			t.Errorf("%s: got %s, want %s as of the text", url, got, want)
		}
	}
	if got := run(text, 1<<20); got != want {
		t.Errorf("with a cache of 1 MB: got %s, want %s", got, want)
	}
}

func TestRefusesByName(t *testing.T) {
	path := drawClicks(t, 50)
	for _, test := range []struct {
		path          string
		batch, epochs int
		buckets       int64
		cache         int64
		want          string
	}{
		{"", 1, 1, 0, 1 << 20, "--data is empty"},
		{path, 0, 1, 0, 1 << 20, "--batch is 0"},
		{path, 1, 0, 0, 1 << 20, "--epochs is 0"},
		{path, 1, 1, -1, 1 << 20, "--buckets is -1"},
		{path, 1, 1, 0, 0, "--cache is 0"},
		{path, 6, 1, 0, 1 << 20, "--batch is 6, want at most 5"},
		{path + "x", 1, 1, 0, 1 << 20, "no such file"},
	} {
		if _, err := train(t.Context(), settings{path: test.path, out: t.TempDir(), batch: test.batch, epochs: test.epochs, rows: data.CriteoConfig{Buckets: test.buckets, CacheBytes: test.cache}}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got error %v, want one with %q", test, err, test.want)
		}
	}
}
