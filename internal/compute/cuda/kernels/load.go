package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/nvrtc"
)

//go:generate sh src/build.sh kernels.ptx.gz

// packed has gzip's form: PTX is text, and every program that trains carries it.
//
//go:embed kernels.ptx.gz
var packed []byte

var unpacked = sync.OnceValue(func() []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("kernels: the embedded PTX: " + err.Error()) // a test reads it
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic("kernels: the embedded PTX: " + err.Error())
	}
	return text
})

//go:embed src
var sources embed.FS

// PTX is the kernels as clang compiled them, for GPUs of compute capability 8.0 and later. It uses
// nothing that is of later ones alone: as PTX for 9.0 it becomes the same machine code. All drivers
// that package drv opens take its version. The caller does not change it.
func PTX() []byte { return unpacked() }

// Source is the kernels' source as one text without includes, for a compiler that has no files. It
// ends with a comment that names all kernels, as EXPORT(name), for those who do not expand macros.
func Source() (string, error) {
	text, err := include("kernels.cu", make(map[string]bool))
	if err != nil {
		return "", err
	}
	return text + "// EXPORT(" + strings.Join(Names(), ")\n// EXPORT(") + ")\n", nil
}

// Sources are the files of src, among them kernels.cu, which includes the others: with g++
// -std=c++17 -x c++ -DGPU_EMU it becomes the emulator.
func Sources() map[string][]byte {
	files := make(map[string][]byte)
	entries, _ := sources.ReadDir("src")
	for _, e := range entries {
		files[e.Name()], _ = sources.ReadFile("src/" + e.Name())
	}
	return files
}

// include is a file with the files that it includes in their places, each once, and without those
// of a compiler's own (<>).
func include(name string, seen map[string]bool) (string, error) {
	if seen[name] {
		return "", nil
	}
	seen[name] = true
	data, err := sources.ReadFile("src/" + name)
	if err != nil {
		return "", fmt.Errorf("kernels: source: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#line 1 %q\n", name)
	for i, line := range strings.Split(string(data), "\n") {
		file, isInclude := strings.CutPrefix(line, `#include "`)
		switch {
		case strings.HasPrefix(line, "#include <") || line == "#pragma once" || line == `#include "emu.h"`:
			b.WriteString("\n")
		case isInclude:
			text, err := include(strings.TrimSuffix(file, `"`), seen)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s#line %d %q\n", text, i+2, name)
		default:
			b.WriteString(line + "\n")
		}
	}
	return b.String(), nil
}

// A Compiler makes an image that a driver loads (PTX or a cubin) of CUDA C++, for a compute
// capability: NVRTC.
type Compiler func(source string, compute [2]int) (image []byte, err error)

// NVRTC makes a Compiler of the library's.
func NVRTC(c *nvrtc.Compiler) Compiler {
	return func(source string, compute [2]int) ([]byte, error) {
		image, _, err := c.Compile(nvrtc.Program{Name: "kernels.cu", Source: source, Compute: compute, Options: []string{"--std=c++17"}})
		return image, err
	}
}

// leastCompute is the compute capability that the kernels need: before it there are no instructions
// for bfloat16.
var leastCompute = [2]int{8, 0}

// ErrNoKernels is the class of errors of a device that no form of the kernels could be loaded on.
var ErrNoKernels = errors.New("kernels: no form of the kernels runs here")

// Load loads the kernels on a device, from the embedded PTX.
func Load(ctx *drv.Context) (*Set, error) { return LoadWith(ctx, nil) }

// LoadWith is Load with a compiler, nil for none, that is asked if the driver refuses the PTX. If
// nothing helps the error is an ErrNoKernels with both logs. LoadWith may be called inside the
// context's Do and outside of it.
func LoadWith(ctx *drv.Context, compile Compiler) (*Set, error) {
	if c := ctx.Info().Compute; slices.Compare(c[:], leastCompute[:]) < 0 {
		return nil, fmt.Errorf("%w: cuda:%d (%s) has compute capability %d.%d, want %d.%d or more", ErrNoKernels, ctx.Info().Ordinal, ctx.Info().Name,
			c[0], c[1], leastCompute[0], leastCompute[1])
	}
	set := &Set{device: ctx, sms: max(1, ctx.Info().SMs)}
	err := ctx.Do(func() error {
		err := set.take(ctx, PTX())
		if err == nil {
			return nil
		}
		first := fmt.Errorf("PTX: %w", err)
		if compile == nil {
			return fmt.Errorf("%w: %w", ErrNoKernels, first)
		}
		source, err := Source()
		if err != nil {
			return err
		}
		image, err := compile(source, ctx.Info().Compute)
		if err == nil {
			err = set.take(ctx, image)
		}
		if err != nil {
			return fmt.Errorf("%w: %w; compiled from source: %w", ErrNoKernels, first, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	set.unload = func() error { return ctx.Do(func() error { return ctx.UnloadModule(set.module) }) }
	return set, nil
}

// take loads an image and finds all kernels in it. A driver that loads kernels as late as it can
// may refuse PTX only when one is asked for.
func (k *Set) take(ctx *drv.Context, image []byte) error {
	module, err := ctx.LoadModule(image)
	if err != nil {
		return err
	}
	functions := make(map[string]drv.Function)
	for _, name := range Names() {
		if functions[name], err = ctx.Function(module, name); err != nil {
			return errors.Join(fmt.Errorf("kernels: load: %w", err), ctx.UnloadModule(module))
		}
	}
	k.module, k.functions = module, functions
	return nil
}

// Close unloads the kernels. None may be running, or be in a graph that is launched again.
func (k *Set) Close() error {
	if k.unload == nil {
		return nil
	}
	unload := k.unload
	k.unload, k.functions = nil, nil
	return unload()
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// Names lists the kernels in the order of the PTX.
func Names() []string { return slices.Clone(names()) }

// names reads them once: the PTX is long.
var names = sync.OnceValue(func() []string {
	var list []string
	for _, m := range entry.FindAllSubmatch(PTX(), -1) {
		list = append(list, string(m[1]))
	}
	return list
})
