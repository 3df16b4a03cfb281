package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// An architecture is what the tags of a wheel and the header of a binary say for a GOARCH.
type architecture struct {
	tag     string
	machine elf.Machine
}

var architectures = map[string]architecture{
	"amd64": {"x86_64", elf.EM_X86_64},
	"arm64": {"aarch64", elf.EM_AARCH64},
}

// binary returns the launch binary of an architecture: the one that was given, or one that is built
// without anything of this machine in it.
func (o options) binary(arch string) ([]byte, error) {
	if _, ok := architectures[arch]; !ok {
		return nil, fmt.Errorf("-arch: got %q, want amd64 or arm64", arch)
	}
	file := o.launch
	if file == "" {
		folder, err := os.MkdirTemp("", "paragon-wheel-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		file = filepath.Join(folder, "launch")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, "./launch")
		build.Dir = o.root
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build launch for linux/%s: %w\n%s", arch, err, out)
		}
	}
	if err := static(file, architectures[arch].machine); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return os.ReadFile(file)
}

// static returns an error if a binary is of another architecture, or asks for a dynamic linker or
// a library: then the wheel's tags would promise too much.
func static(file string, want elf.Machine) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Machine != want {
		return fmt.Errorf("the binary is for %s, want %s", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the binary is linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	return nil
}
