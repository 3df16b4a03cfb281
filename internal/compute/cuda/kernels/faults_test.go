//go:build linux && (amd64 || arm64) && !android && !nocuda

package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheEmulatorFindsFaultsInAllOrders(t *testing.T) {
	needs(t, "g++")
	library := filepath.Join(t.TempDir(), "broken.so")
	if err := buildEmulator(library, filepath.Join("testdata", "broken.cu")); err != nil {
		t.Fatal(err)
	}
	e, err := openEmulator(library)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"right_one":         "",
		"no_barrier":        `shared s\[\d+\] is (read|written) `,
		"no_second_barrier": `shared s\[\d+\] is (read|written) while`,
		"barrier_of_some":   "threads part at a barrier",
		"shuffle_of_some":   "threads part at a barrier or shuffle",
		"other_shuffles":    "threads part at a barrier or shuffle",
		"index_beyond":      `index 256 of shared s\[256\]`,
		"never_written":     `shared s\[0\] is read and was not written`,
		"crooked":           "not a multiple of 16",
		"missing":           "there is no kernel missing",
	} {
		for _, order := range orders {
			b := newBox(t, 1, order)
			x, y := b.put(Float32, random(1, 256)), b.empty(Float32, 256)
			var a args
			a.ptr(y, x)
			err := e.run(name, [3]uint32{2, 1, 1}, [3]uint32{256, 1, 1}, a.b, order)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s in order %d: %v", name, order, err)
			case want != "" && (err == nil || !regexp.MustCompile(want).MatchString(err.Error())):
				t.Errorf("%s in order %d: got %v, want %q", name, order, err, want)
			}
		}
	}
	if err := e.run("right_one", [3]uint32{1, 1, 1}, [3]uint32{256, 1, 1}, make([]byte, 12), 0); err == nil || !strings.Contains(err.Error(), "12 bytes, want 16") {
		t.Errorf("a parameter block that is short: got %v", err)
	}
}

// mutations are faults that the tests must see: what is replaced in which file, wherever it stands,
// one place at a time.
var mutations = []struct{ file, old, new string }{
	{"*.cu", "__syncthreads();", ";"},
	{"norm.cu", "d * d * count * share", "d * d * share"},
	{"norm.cu", "t >= 0; t -= (int)gridDim.x", "t > 0; t -= (int)gridDim.x"},
	{"normgrad.cu", "t >= 0; t -= (int)gridDim.x", "t > 0; t -= (int)gridDim.x"},
	{"gpu.h", "r.reach = (u32)((u - 1) * w.high)", "r.reach = (u32)((u - 2) * w.high)"},
	{"normgrad.cu", "if (m.mode == MASK_BY_BITS) {\n#pragma unroll\n    for (int k", "if (m.mode == MASK_BY_X) {\n#pragma unroll\n    for (int k"},
	{"normgrad.cu", "d[k] - s.r[k]", "d[k]"},
	{"bias.cu", "s > 0; s /= 2", "s > 1; s /= 2"},
	{"gpu.h", "n / 8 * 8 : 0", "n / 8 * 8 + 1 : 0"},
	{"gpu.h", "at + (i64)u * high < rows", "at + (i64)u * high < rows - 1"},
	{"pool.cu", "a[k] != a[k]", "false"},
	{"pool.cu", "c.last > results - 1", "c.last > results"},
	{"loss.cu", "label != -1 && bad", "bad"},
	{"embedding.cu", "at < i && ", ""},
	{"table.cu", "t.filters = e.pad_k - t.k0 < e.filters ? e.pad_k - t.k0 : e.filters", "t.filters = e.filters"},
	{"image.cu", "c0 + x < padded", "c0 + x < c"},
}

// Removes one barrier after another from the sources, and makes other faults, and runs the tests in
// a child, which must fail.
func TestNoFaultPassesTheTests(t *testing.T) {
	if os.Getenv("PARAGON_TEST_SLOW") == "" {
		t.Skip("takes minutes: runs under PARAGON_TEST_SLOW=1 (make slowtest)")
	}
	needs(t, "g++")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sources := Sources()
	for _, m := range mutations {
		files, _ := filepath.Glob(filepath.Join("src", m.file))
		places := 0
		for _, file := range files {
			text := string(sources[filepath.Base(file)])
			for at := 0; ; at++ {
				i := strings.Index(text[at:], m.old)
				if i < 0 {
					break
				}
				at += i
				places++
				line := strings.Count(text[:at], "\n") + 1
				mutant := text[:at] + m.new + text[at+len(m.old):]
				t.Run(fmt.Sprintf("%s:%d", filepath.Base(file), line), func(t *testing.T) {
					folder := t.TempDir()
					for name, data := range sources {
						if name == filepath.Base(file) {
							data = []byte(mutant)
						}
						if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
							t.Fatal(err)
						}
					}
					library := filepath.Join(folder, "mutant.so")
					if out, err := exec.Command("g++", "-std=c++17", "-x", "c++", "-DGPU_EMU", "-O1", "-fPIC", "-shared", "-w", "-o", library, filepath.Join(folder, "kernels.cu")).CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					child := exec.Command(binary, "-test.short", "-test.failfast", "-test.timeout=5m")
					child.Env = append(os.Environ(), "PARAGON_TEST_SLOW=", emulatorVariable+"="+library)
					if out, err := child.CombinedOutput(); err == nil {
						t.Errorf("%s line %d: %q for %q: the tests pass\n%s", file, line, m.new, m.old, out)
					}
				})
			}
		}
		if places == 0 {
			t.Errorf("%s has no %q", m.file, m.old)
		}
	}
}
