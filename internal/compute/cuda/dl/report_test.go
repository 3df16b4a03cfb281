package dl_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
)

// A report names every library: where it is and its version, or why it is not there.
func TestReportNamesEveryLibrary(t *testing.T) {
	m := fake.New(t)
	m.Set("version", 13020)
	paths := m.Paths()
	for i, f := range m.Search().Report() {
		if f.Name != dl.Names[i] {
			t.Errorf("line %d is of %s, want %s", i, f.Name, dl.Names[i])
		}
		if paths[f.Name] == "" {
			if !errors.Is(f.Err, dl.ErrNoLibrary) || !strings.Contains(f.String(), "none: ") {
				t.Errorf("%s: got %v, want ErrNoLibrary", f.Name, f)
			}
			continue
		}
		if f.Err != nil || f.Path != paths[f.Name] || f.File == "" || f.Version.Major == 0 || !strings.Contains(f.String(), f.Path) {
			t.Errorf("%s: got %v, want a version at %s", f.Name, f, paths[f.Name])
		}
		if want := (dl.Version{Major: 13, Minor: 2}); f.Name == dl.CUDA && f.Version != want {
			t.Errorf("cuda: version %v, want %v", f.Version, want)
		}
	}
}

// A library that is built for a later CUDA than the driver runs is an error that says so; one for
// an earlier one will do, and its line says it.
func TestLibrariesFitTheDriver(t *testing.T) {
	m := fake.New(t)
	search := m.Search()
	search.Major = 13
	m.Set("cudnn_cudart", 14000)
	if _, err := search.Open(dl.CuDNN); !errors.Is(err, dl.ErrTooNew) || !strings.Contains(err.Error(), "built for CUDA 14, and the driver runs 13; set PARAGON_CUDNN_PATH") {
		t.Errorf("cuDNN for CUDA 14: got %v, want ErrTooNew", err)
	}
	m.Set("cudnn_cudart", 12080)
	lib, err := search.Open(dl.CuDNN)
	if err != nil || lib.BuiltFor() != 12 || !strings.Contains(lib.String(), "9.19.0 for CUDA 12 ") {
		t.Errorf("cuDNN for CUDA 12: got %v and error %v", lib, err)
	}
	search.Major = 12
	if _, err := search.Open(dl.CuBLASLt); !errors.Is(err, dl.ErrTooNew) {
		t.Errorf("cuBLASLt of CUDA 13 for 12: got %v, want ErrTooNew", err)
	}
	if nccl, err := search.Open(dl.NCCL); err != nil || nccl.BuiltFor() != 0 {
		t.Errorf("NCCL, which does not say: got %v and error %v", nccl, err)
	}
}

// A function that a library lacks is an error that names both; one of several names is enough.
func TestSymbols(t *testing.T) {
	lib, err := fake.New(t).Search().Open(dl.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lib.Symbol("cuNothing"); !errors.Is(err, dl.ErrTooOld) || !strings.Contains(err.Error(), lib.Path+" has no function cuNothing") {
		t.Errorf("got %v, want ErrTooOld that names the library and cuNothing", err)
	}
	one, err1 := lib.FirstSymbol("cuNothing", "cuInit")
	two, err2 := lib.Symbol("cuInit")
	if err1 != nil || err2 != nil || one != two || one == 0 {
		t.Errorf("first of cuNothing and cuInit: %#x, %v; cuInit: %#x, %v", one, err1, two, err2)
	}
	if lib.Has("cuNothing") || !lib.Has("cuInit") {
		t.Errorf("has cuNothing %v, cuInit %v", lib.Has("cuNothing"), lib.Has("cuInit"))
	}
}

// raceEnabled is set in builds with the race detector.
var raceEnabled bool

// A call whose memory is kept allocates nothing, whatever its number of arguments.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools allocate")
	}
	lib, err := fake.New(t).Search().Open(dl.CUDA)
	if err != nil {
		t.Fatal(err)
	}
	fn, err := lib.Symbol("cuDriverGetVersion")
	if err != nil {
		t.Fatal(err)
	}
	caller, out := new(dl.Caller), new(int32)
	if n := alloctest.PerRun(100, func() {
		caller.CallKept(fn, uintptr(unsafe.Pointer(out)), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	}); n != 0 || *out != 13000 {
		t.Errorf("%v allocations and version %d, want none and 13000", n, *out)
	}
}

func BenchmarkCall(b *testing.B) {
	lib, err := fake.New(b).Search().Open(dl.CUDA)
	if err != nil {
		b.Fatal(err)
	}
	fn, err := lib.Symbol("cuDriverGetVersion")
	if err != nil {
		b.Fatal(err)
	}
	caller, out := new(dl.Caller), new(int32)
	b.ReportAllocs()
	for b.Loop() {
		caller.CallKept(fn, uintptr(unsafe.Pointer(out)), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	}
}
