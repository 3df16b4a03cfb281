package cudnn

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// A library that is too old, or of a later major version, is refused with both versions and its
// path.
func TestOpenRefusesOtherVersions(t *testing.T) {
	m := fake.New(t)
	ctx := m.Context(0)
	lib, err := m.Search().Open(dl.CuDNN)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{8907, 100000, 0} {
		m.Set("cudnn_version", version)
		err := ctx.Do(func() error { _, err := Open(lib, ctx); return err })
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), Version(version).String()) || !strings.Contains(err.Error(), "9.0.0") ||
			!strings.Contains(err.Error(), lib.Path) {
			t.Errorf("version %d: got error %v, want ErrVersion with both versions and the path", version, err)
		}
	}
	m.Set("cudnn_version", 91501)
	err = ctx.Do(func() error {
		h, err := Open(lib, ctx)
		if err != nil {
			return err
		}
		if got := h.Version().String(); got != "9.15.1" {
			t.Errorf("version: got %s, want 9.15.1", got)
		}
		if h.Path() != lib.Path {
			t.Errorf("path: got %s, want %s", h.Path(), lib.Path)
		}
		if err := h.Close(); err != nil {
			return err
		}
		if _, err := h.Forward(shape(0, 1, 1, 1, 1, 1, 1, 1, 0, 1)); err == nil || !strings.Contains(err.Error(), "the handle is closed") {
			t.Errorf("a closed handle: got error %v", err)
		}
		return h.Close() // again is harmless
	})
	if err != nil {
		t.Error(err)
	}
	if n := m.Count("cudnn_handles"); n != 0 {
		t.Errorf("%d handles were not destroyed", n)
	}
}

// A library that is another one, and none at all, are clear errors.
func TestOpenWithoutTheLibrary(t *testing.T) {
	m := fake.New(t)
	ctx := m.Context(0)
	missing := m.Search()
	missing.Paths = dl.Paths{dl.CUDA: m.Paths()[dl.CUDA], dl.CuDNN: filepath.Join(t.TempDir(), "libcudnn.so.9")}
	if _, err := missing.Open(dl.CuDNN); !errors.Is(err, dl.ErrNoLibrary) {
		t.Errorf("no file: got error %v, want dl.ErrNoLibrary", err)
	}
	other, err := m.Search().Open(dl.CuBLASLt)
	if err != nil {
		t.Fatal(err)
	}
	err = ctx.Do(func() error { _, err := Open(other, ctx); return err })
	if !errors.Is(err, dl.ErrTooOld) || !strings.Contains(err.Error(), "cudnnGetVersion") {
		t.Errorf("another library: got error %v, want dl.ErrTooOld with the function", err)
	}
}

var update = flag.Bool("update", false, "rewrite the golden list of attributes")

// What the library is told for a convolution of ResNet18's first stage, attribute by attribute. The
// vendor's documentation and its own programs set these.
func TestAttributesOfAResNetConvolution(t *testing.T) {
	b := newBench(t)
	var lines []string
	b.h.trace = func(line string) { lines = append(lines, line) }
	b.h.Legacy = false
	b.do(func() error {
		all, err := b.h.Candidates(Forward, shape(BFloat16, 128, 64, 32, 32, 64, 3, 3, 1, 1))
		if err != nil {
			return err
		}
		return errors.Join(all[0].Build(), Release(all, nil))
	})
	got := strings.Join(lines, "\n") + "\n"
	golden := filepath.Join("testdata", "resnet-conv.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("attributes: got\n%s\nwant\n%s", got, want)
	}
}

// Each open question about the library is answered on a machine with it, here on the fake one, and
// the handle is as before.
func TestFactsCanBeFoundOut(t *testing.T) {
	b := newBench(t)
	for _, f := range Facts() {
		b.do(func() error {
			holds, detail, err := f.Check(b.h, b.s)
			if err != nil || detail == "" {
				t.Errorf("%s: got detail %q and error %v", f.Name, detail, err)
			}
			if !holds {
				t.Errorf("%s: does not hold on the fake library: %s", f.Name, detail)
			}
			return nil
		})
	}
	b.m.Set("cudnn_wgrad_float32", 0)
	b.m.Set("cudnn_mask_scalar", 0)
	not := ""
	for _, f := range Facts() {
		b.do(func() error {
			holds, _, err := f.Check(b.h, b.s)
			if !holds {
				not += f.Name + "; "
			}
			return err
		})
	}
	if want := "weight gradient in float32; mask by a number; "; not != want {
		t.Errorf("facts that do not hold on a lesser library: got %q, want %q", not, want)
	}
	if !b.h.Legacy {
		t.Error("a check left Handle.Legacy off")
	}
}

// The fake library has the vendor's values a second time, as the vendor's headers have them on a
// machine with them: those that both have are the same.
func TestConstantsAreWrittenDownTwice(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "fake", "src", "cudnn", "constants.h"))
	if err != nil {
		t.Fatal(err)
	}
	ours, same := Constants(), 0
	for _, line := range regexp.MustCompile(`(?m)^  (CUDNN_\w+) = (-?\d+),$`).FindAllStringSubmatch(string(text), -1) {
		value, err := strconv.ParseInt(line[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ours[line[1]]; ok {
			same++
			if got != value {
				t.Errorf("%s: got %d, the fake library has %d", line[1], got, value)
			}
		}
	}
	if same < 100 {
		t.Errorf("%d constants are in both, want 100 at least", same)
	}
}
