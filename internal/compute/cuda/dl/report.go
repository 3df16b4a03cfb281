package dl

import (
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// A Found is a line of a report: one library.
type Found struct {
	Name Name
	Path string // "" where Err is set
	File string // what was loaded, links followed

	// Version is as the library says. That of the driver is the newest CUDA that it runs.
	Version Version

	// Release is as the file's name says, such as 580.65.06 for the driver; empty: the name does
	// not say it.
	Release string

	BuiltFor int   // Library.BuiltFor
	Err      error // why it is not there
}

func (f Found) String() string {
	if f.Err != nil {
		return fmt.Sprintf("%-10s none: %v", f.Name, f.Err)
	}
	s := fmt.Sprintf("%-10s %v", f.Name, f.Version)
	if f.Release != "" && f.Release != f.Version.String() {
		s += " (" + f.Release + ")"
	}
	if f.BuiltFor != 0 && f.BuiltFor != f.Version.Major {
		s += fmt.Sprintf(" for CUDA %d", f.BuiltFor)
	}
	s += " " + f.Path
	if f.File != f.Path {
		s += " -> " + f.File
	}
	return s
}

// Report opens every library and says where it is and of which version.
func (s *Search) Report() []Found {
	report := make([]Found, 0, len(Names))
	for _, name := range Names {
		lib, err := s.Open(name)
		if err != nil {
			report = append(report, Found{Name: name, Err: err})
			continue
		}
		report = append(report, lib.line())
	}
	return report
}

func (l *Library) line() Found {
	f := Found{Name: l.Name, Path: l.Path, File: l.File, Version: l.Version(), BuiltFor: l.BuiltFor()}
	if _, after, ok := strings.Cut(l.File, ".so."); ok && strings.Contains(after, ".") {
		f.Release = after
	}
	return f
}

// String is the library's line in a report.
func (l *Library) String() string { return l.line().String() }

// BuiltFor is the major version of CUDA that the library was built for, 0 where it does not say. A
// driver runs what is built for its own and for earlier ones.
func (l *Library) BuiltFor() int {
	switch l.Name {
	case CuBLASLt, CuBLAS, NVRTC:
		return l.Version().Major
	case CuDNN:
		if fn, err := l.Symbol("cudnnGetCudartVersion"); err == nil {
			var caller Caller
			return int(caller.Call(fn)) / 1000 // 13000 is 13.0
		}
	}
	return 0
}

// Version asks the library for its version. One that cannot be asked without a GPU, or does not
// say, has that of its file's name.
func (l *Library) Version() Version {
	var caller Caller
	numbers := new([3]int32)
	at := func(i int) uintptr { return uintptr(unsafe.Pointer(&numbers[i])) }
	// Properties 0, 1 and 2 are the major version, the minor one and the patch.
	properties := func(name string) bool {
		fn, err := l.Symbol(name)
		if err != nil {
			return false
		}
		for i := range numbers {
			if int32(caller.Call(fn, uintptr(i), at(i))) != 0 {
				return false
			}
		}
		return true
	}
	// one is a function that stores the version as one number, and returns a status.
	one := func(name string) bool {
		fn, err := l.Symbol(name)
		return err == nil && int32(caller.Call(fn, at(0))) == 0
	}
	switch l.Name {
	case CUDA:
		if one("cuDriverGetVersion") {
			return EncodedVersion(l.Name, int(numbers[0]))
		}
	case NCCL:
		if one("ncclGetVersion") {
			return EncodedVersion(l.Name, int(numbers[0]))
		}
	case NVRTC:
		if fn, err := l.Symbol("nvrtcVersion"); err == nil && int32(caller.Call(fn, at(0), at(1))) == 0 {
			return Version{int(numbers[0]), int(numbers[1]), 0}
		}
	case CuBLASLt, CuBLAS:
		if properties(string(l.Name) + "GetProperty") {
			return Version{int(numbers[0]), int(numbers[1]), int(numbers[2])}
		}
	}
	for _, name := range []string{"cudnnGetVersion", "cublasLtGetVersion"} { // these return it
		if fn, err := l.Symbol(name); err == nil && strings.HasPrefix(name, string(l.Name)+"Get") {
			return EncodedVersion(l.Name, int(caller.Call(fn)))
		}
	}
	return ParseVersion(l.File)
}

// KernelModule returns the version of the driver's module in the running kernel, "" if there is
// none.
func KernelModule() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	return moduleVersion(string(text))
}

// moduleVersion finds the version in what the module says of itself: the first word of its first
// line that is numbers and points.
func moduleVersion(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	for _, word := range strings.Fields(line) {
		if parts := strings.Split(word, "."); len(parts) > 1 {
			all := true
			for _, p := range parts {
				_, ok := number(p)
				all = all && ok
			}
			if all {
				return word
			}
		}
	}
	return ""
}
