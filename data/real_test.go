package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// raceEnabled is set in builds with the race detector.
var raceEnabled bool

// realData returns the path of a file or folder of the test data, or skips.
func realData(t *testing.T, elem ...string) string {
	t.Helper()
	root := os.Getenv("PARAGON_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			t.Fatalf("PARAGON_TEST_REQUIRE=all, and there is no test data: %v", err)
		}
		t.Skipf("no test data (set PARAGON_TEST_DATA): %v", err)
	}
	return path
}

func TestCIFAR10LoadsFromItsArchive(t *testing.T) {
	path := realData(t, "cifar10")
	if testing.Short() || raceEnabled {
		t.Skip("unpacks 170 MB in one goroutine: runs without -short and without -race (make test)")
	}
	train, test, err := LoadCIFAR10(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  *ImageSet
		each int
	}{{"train", train, 5000}, {"test", test, 1000}} {
		var counts [10]int
		for i := range c.set.Len() {
			counts[c.set.Label(i)]++
		}
		for label, n := range counts {
			if n != c.each {
				t.Errorf("%s: class %d: got %d images, want %d", c.name, label, n, c.each)
			}
		}
	}
	// The first training image is the well-known frog, the first test image a cat.
	if train.Label(0) != 6 || test.Label(0) != 3 {
		t.Errorf("first labels: got %d and %d, want 6 and 3", train.Label(0), test.Label(0))
	}
	var sum [3]float64

	// One image in so many is enough for two digits.
	const every = 25
	for i := 0; i < train.Len(); i += every {
		for k, p := range train.Pixels(i) {
			sum[k/1024] += float64(p)
		}
	}
	for c, want := range CIFAR10Mean {
		got := sum[c] / 1024 / float64(train.Len()/every) / 255
		if diff := got - float64(want); diff > 0.01 || diff < -0.01 {
			t.Errorf("mean of channel %d: got %.4f, want %.4f", c, got, want)
		}
	}
}

func TestMNISTLoadsFromItsFiles(t *testing.T) {
	path, images, first := realData(t, "mnist"), 60_000, 5

	// Unpacking 60,000 images takes long. Those of the test set are in both places.
	if raceEnabled {
		path, images, first = linked(t, path, "t10k", "t10k"), 10_000, 7
	}
	train, test, err := LoadMNIST(path)
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != images || test.Len() != 10_000 || train.Shape() != (Shape{1, 28, 28}) {
		t.Errorf("got %d and %d images of %v, want %d and 10000 of 1×28×28", train.Len(), test.Len(), train.Shape(), images)
	}
	if train.Label(0) != first || test.Label(0) != 7 {
		t.Errorf("first labels: got %d and %d, want %d and 7", train.Label(0), test.Label(0), first)
	}
}

// linked is a folder in which the files of MNIST's training and test set are those of the named
// ones.
func linked(t *testing.T, path, train, test string) string {
	t.Helper()
	dir := t.TempDir()
	for as, name := range map[string]string{"train": train, "t10k": test} {
		for _, file := range []string{"-images-idx3-ubyte", "-labels-idx1-ubyte"} {
			found, err := filepath.Glob(filepath.Join(path, name+file+"*"))
			if err != nil || len(found) == 0 {
				t.Fatalf("no %s in %s (error %v)", name+file, path, err)
			}
			from, err := filepath.Abs(found[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(from, filepath.Join(dir, as+file+strings.TrimPrefix(filepath.Base(from), name+file))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestCriteoLoadsItsRows(t *testing.T) {
	set, err := LoadCriteo(realData(t, "ctr", "criteo_train_head.txt.gz"), CriteoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	clicked, distinct := 0, map[int64]bool{}
	dense, ids := make([]float32, CriteoDense), make([]int64, CriteoCategorical)
	for i := range set.Len() {
		label, err := set.Read(i, dense, ids)
		if err != nil {
			t.Fatal(err)
		}
		clicked += int(label)
		for _, id := range ids {
			distinct[id] = true
			if id < 0 || id >= set.Buckets() {
				t.Fatalf("row %d: got bucket %d, want 0 to %d", i, id, set.Buckets()-1)
			}
		}
	}
	if set.Len() != 10_109 || clicked != 2198 {
		t.Errorf("got %d rows, %d clicked, want 10109 and 2198", set.Len(), clicked)
	}
	// 43,963 values in a million buckets: about 950 share one with another.
	if n := len(distinct); n < 42_700 || n > 43_963 {
		t.Errorf("got %d distinct buckets, want about 43000", n)
	}
}
