package nvrtc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

const source = `#include "gpu.h"
extern "C" __global__ void test_scale(float *x, float a, int n) {}
`

func open(t *testing.T, m *fake.Machine) *nvrtc.Compiler {
	t.Helper()
	lib, err := m.Search().Open(dl.NVRTC)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nvrtc.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		live, err := lib.Symbol("fakenvrtc_live")
		if err != nil {
			t.Fatal(err)
		}
		var caller dl.Caller
		if n := int32(caller.Call(live)); n != 0 {
			t.Errorf("%d programs were not given back", n)
		}
	})
	return c
}

func program() nvrtc.Program {
	return nvrtc.Program{Name: "scale.cu", Source: source, Headers: map[string]string{"gpu.h": "// nothing\n", "other.h": ""}, Compute: [2]int{9, 0},
		Options: []string{"--std=c++17"}}
}

// What is compiled can be loaded, and its kernels found.
func TestCompiledProgramLoads(t *testing.T) {
	m := fake.New(t)
	c := open(t, m)
	if major, minor := c.Version(); major != 13 || minor != 0 {
		t.Errorf("version %d.%d, want 13.0", major, minor)
	}
	ctx := m.Context(0)

	// The second is newer than the library, and gets PTX.
	for _, compute := range [][2]int{{9, 0}, {99, 0}} {
		p := program()
		p.Compute = compute
		image, _, err := c.Compile(p)
		if err != nil {
			t.Fatalf("compute %v: %v", compute, err)
		}
		if err := ctx.Do(func() error {
			module, err := ctx.LoadModule(image)
			if err != nil {
				return err
			}
			if _, err := ctx.Function(module, "test_scale"); err != nil {
				return err
			}
			return ctx.UnloadModule(module)
		}); err != nil {
			t.Errorf("compute %v: %v", compute, err)
		}
	}
}

// NVRTC's code is taken where the driver refuses PTX, which is what it is there for.
func TestCodeLoadsWherePTXIsRefused(t *testing.T) {
	m := fake.New(t)
	c := open(t, m)
	image, _, err := c.Compile(program())
	if err != nil {
		t.Fatal(err)
	}
	m.Set("ptx_error", 222)
	ctx := m.Context(0)
	if err := ctx.Do(func() error {
		_, err := ctx.LoadModule(image)
		return err
	}); err != nil {
		t.Error(err)
	}
}

// What is wrong with a source is in the error, with its file and line.
func TestCompileErrorsCarryTheLog(t *testing.T) {
	c := open(t, fake.New(t))
	for _, x := range []struct {
		name string
		edit func(*nvrtc.Program)
		says []string
	}{
		{"source", func(p *nvrtc.Program) { p.Source += "#error no\n" }, []string{`nvrtcCompileProgram of "scale.cu"`, "NVRTC_ERROR_COMPILATION (6)", "scale.cu(3): error"}},
		{"header", func(p *nvrtc.Program) { p.Headers["gpu.h"] = "\n#error no\n" }, []string{"gpu.h(2): error"}},
		{"no header", func(p *nvrtc.Program) { p.Headers = nil }, []string{`scale.cu(1): error: cannot open source file "gpu.h"`}},
		{"option", func(p *nvrtc.Program) { p.Options = []string{"fast"} }, []string{"NVRTC_ERROR_INVALID_OPTION (5)", "unrecognized option fast"}},
	} {
		p := program()
		x.edit(&p)
		image, _, err := c.Compile(p)
		var e *nvrtc.Error
		if !errors.As(err, &e) || image != nil {
			t.Errorf("%s: got %d bytes and %v, want an Error", x.name, len(image), err)
			continue
		}
		for _, want := range x.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", x.name, err, want)
			}
		}
	}
}
