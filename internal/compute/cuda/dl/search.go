package dl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Paths are absolute paths of libraries whose place is known. A library that is not among them is
// searched for.
type Paths map[Name]string

// A Search finds libraries. The zero value searches the usual places of this machine. Its methods
// may be called together.
//
// For each library the order is: Paths; the variable PARAGON_NAME_PATH (see Name.Variable), a file
// or its folder; the folders of LD_LIBRARY_PATH as it is now; what the system's loader knows; the
// driver's folders, for what belongs to the driver; Python packages, of CUDA 13 before CUDA 12;
// installations in /usr/local/cuda*, the newest first.
type Search struct {
	// Paths are tried before all else, and nothing else then: a path that does not open is an
	// error.
	Paths Paths
	// Only says that nothing is searched for beyond Paths.
	Only bool
	// Major is the newest major version of CUDA that the driver runs; libraries built for later
	// ones are passed over. 0 is any.
	Major int
	// Root stands before every folder that is searched, and the system's own loader is not
	// asked. Tests set it. "" is none.
	Root string
	// Getenv reads the environment; nil is os.Getenv.
	Getenv func(string) string
}

// Open finds a library and opens it, after those that it depends on, as far as these are there.
func (s *Search) Open(name Name) (*Library, error) {
	if err := Supported(); err != nil {
		return nil, fmt.Errorf("dl: open %s: %w", name, err)
	}
	if sonames[name] == nil {
		return nil, fmt.Errorf("dl: open %q: unknown library, want one of %v", name, Names)
	}
	for _, need := range needs[name] {
		// What is missing is said by the library that needs it.
		s.Open(need)
	}
	var tried []string
	stubs := false
	for _, path := range s.Candidates(name) {
		if isStub(path) {
			tried = append(tried, path+": it is a stub for linkers")
			stubs = true
			continue
		}
		if stubs && !filepath.IsAbs(path) {
			// The system's loader would take the stub.
			continue
		}
		s.preload(name, path)
		handle, err := open(path)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		lib := newLibrary(name, path, handle)
		if major := lib.BuiltFor(); s.Major != 0 && major > s.Major {
			// No other is tried: parts of this one stay open, and would be taken for
			// parts of that.
			return nil, fmt.Errorf("dl: open %s: %s: %w: it is built for CUDA %d, and the driver runs %d; set %s to the path of another one", name, lib.Path, ErrTooNew, major, s.Major, name.Variable())
		}
		return lib, nil
	}
	if len(tried) == 0 {
		tried = append(tried, "it is in none of the usual folders")
	}
	hint := name.Variable() + " sets its path if it is elsewhere"
	if name == CUDA || name == NVML {
		hint = "there is no NVIDIA driver on this machine, or none that this container sees; " + hint
	}
	return nil, fmt.Errorf("dl: open %s: %w: %s; %s", name, ErrNoLibrary, strings.Join(tried, "; "), hint)
}

func (s *Search) getenv(key string) string {
	if s.Getenv != nil {
		return s.Getenv(key)
	}
	return os.Getenv(key)
}
