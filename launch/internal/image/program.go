package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A Platform is what an image runs on, such as linux/amd64.
type Platform struct{ OS, Architecture string }

func (p Platform) String() string { return p.OS + "/" + p.Architecture }

// Platforms are the platforms that images can be made for.
var Platforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}}

// ParsePlatform reads a platform as its String writes it.
func ParsePlatform(s string) (Platform, error) {
	var names []string
	for _, p := range Platforms {
		if p.String() == s {
			return p, nil
		}
		names = append(names, p.String())
	}
	return Platform{}, fmt.Errorf("platform %q is unknown; want %s", s, strings.Join(names, " or "))
}

// machines are the platforms' names in ELF files.
var machines = map[elf.Machine]Platform{elf.EM_X86_64: {"linux", "amd64"}, elf.EM_AARCH64: {"linux", "arm64"}}

// A Program is an executable file of Linux.
type Program struct {
	Path     string
	Platform Platform
	// Interpreter is the dynamic linker that the program needs, such as
	// /lib64/ld-linux-x86-64.so.2; empty: the program is static.
	Interpreter string

	// Libraries are the libraries that the dynamic linker loads.
	Libraries []string

	// Loaded is the number of bytes, from the beginning of the file, that the kernel needs.
	// Symbols for debuggers lie behind them.
	Loaded int64
}

// ReadProgram reads what kind of program a file is.
func ReadProgram(path string) (Program, error) {
	f, err := os.Open(path)
	if err != nil {
		return Program{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Program{}, err
	}
	if !info.Mode().IsRegular() {
		return Program{}, fmt.Errorf("%s is not a file", path)
	}
	var start [128]byte
	n, err := f.ReadAt(start[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Program{}, err
	}
	if script, ok := bytes.CutPrefix(start[:n], []byte("#!")); ok {
		line, _, _ := bytes.Cut(script, []byte("\n"))
		return Program{}, fmt.Errorf("%s is a script for %s, want a program; an image has no %[2]s unless its base has (--base; add the script with --file)",
			path, strings.TrimSpace(string(line)))
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return Program{}, fmt.Errorf("%s is not a Linux program (ELF): %w", path, err)
	}
	defer e.Close()
	p := Program{Path: path}
	var ok bool
	if p.Platform, ok = machines[e.Machine]; !ok {
		return Program{}, fmt.Errorf("%s is a program for %v, want one for x86-64 or AArch64", path, e.Machine)
	}
	if e.Type != elf.ET_EXEC && e.Type != elf.ET_DYN {
		return Program{}, fmt.Errorf("%s is an ELF file of type %v, want an executable", path, e.Type)
	}
	for _, segment := range e.Progs {
		if segment.Off > uint64(info.Size()) || segment.Filesz > uint64(info.Size())-segment.Off {
			return Program{}, fmt.Errorf("%s is cut off: it has %d bytes, and a segment needs %d at %d", path, info.Size(), segment.Filesz, segment.Off)
		}
		p.Loaded = max(p.Loaded, int64(segment.Off+segment.Filesz))
		if segment.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(segment.Open(), 4096))
			if err != nil {
				return Program{}, fmt.Errorf("%s: its interpreter: %w", path, err)
			}
			p.Interpreter = strings.TrimRight(string(name), "\x00")
		}
	}
	if p.Interpreter != "" {
		// The libraries are for a message.
		p.Libraries, _ = e.ImportedLibraries()
	}
	return p, nil
}

// ErrDynamic is about a program that needs a dynamic linker, which an image without a base does not
// have.
var ErrDynamic = errors.New("is not static")

// Static is nil where the program runs without a dynamic linker and libraries.
func (p Program) Static() error {
	if p.Interpreter == "" {
		return nil
	}
	needs := p.Interpreter
	if len(p.Libraries) > 0 {
		needs += " with " + strings.Join(p.Libraries, ", ")
	}
	return fmt.Errorf("%s %w: it needs %s", p.Path, ErrDynamic, needs)
}

// elfTable are the offsets of three fields in the header of a 64-bit ELF file: where the table of
// sections is, how many there are, and which one has their names.
const (
	elfHeader        = 64
	elfSectionTable  = 40
	elfSectionCount  = 60
	elfSectionString = 62
)

// openStripped reads the program without what only debuggers read: it ends behind the last segment,
// and its header names no sections. Go's tracebacks and profiles and `go version` do not need them.
// Size is the number of bytes.
func (p Program) openStripped() (r io.ReadCloser, size int64, err error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return nil, 0, err
	}
	header := make([]byte, elfHeader)
	if _, err := io.ReadFull(f, header); err != nil || header[elf.EI_CLASS] != byte(elf.ELFCLASS64) || p.Loaded < elfHeader {
		f.Close()
		return nil, 0, fmt.Errorf("%s is not a 64-bit program", p.Path)
	}
	binary.LittleEndian.PutUint64(header[elfSectionTable:], 0)
	binary.LittleEndian.PutUint16(header[elfSectionCount:], 0)
	binary.LittleEndian.PutUint16(header[elfSectionString:], 0)
	rest := io.LimitReader(f, p.Loaded-elfHeader)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(header), rest), f}, p.Loaded, nil
}
