package dl

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// A Name is one of the libraries that are used.
type Name string

// The libraries, in the order in which they are opened: each may need those before it.
const (
	CUDA     Name = "cuda"      // the driver
	NVML     Name = "nvidia-ml" // the driver's telemetry
	CuBLASLt Name = "cublasLt"
	CuBLAS   Name = "cublas"
	NVRTC    Name = "nvrtc"
	CuDNN    Name = "cudnn"
	NCCL     Name = "nccl"
)

// Names are all libraries, in that order.
var Names = []Name{CUDA, NVML, CuBLASLt, CuBLAS, NVRTC, CuDNN, NCCL}

// A Library is an open library. Its methods may be called together. It is never closed: the driver
// and what it loads do not bear that.
type Library struct {
	Name Name

	// Path is absolute. Links are not followed.
	Path string

	// File is the file that was loaded, with links followed. Its name often ends in the version.
	File string

	handle uintptr
	mu     sync.Mutex
	found  map[string]uintptr
}

// newLibrary finds out where a library that was opened lies.
func newLibrary(name Name, path string, handle uintptr) *Library {
	l := &Library{Name: name, Path: path, File: path, handle: handle}
	if address := symbol(handle, anySymbol[name]); address != 0 {
		if file := fileAt(address); file != "" {
			l.File = file
		}
	}
	if !filepath.IsAbs(path) {
		l.Path = l.File
	}
	return l
}

// anySymbol is a function that every version of a library has.
var anySymbol = map[Name]string{CUDA: "cuInit", NVML: "nvmlInit_v2", CuBLASLt: "cublasLtCreate", CuBLAS: "cublasCreate_v2",
	NVRTC: "nvrtcVersion", CuDNN: "cudnnGetVersion", NCCL: "ncclGetVersion"}

// fileAt returns the file that is mapped at an address of this process, "" where there is none.
func fileAt(address uintptr) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 6) // begin-end perms offset dev inode path
		if len(fields) < 6 {
			continue
		}
		begin, end, _ := strings.Cut(fields[0], "-")
		from, err1 := strconv.ParseUint(begin, 16, 64)
		to, err2 := strconv.ParseUint(end, 16, 64)
		if err1 == nil && err2 == nil && from <= uint64(address) && uint64(address) < to {
			return strings.TrimSpace(fields[5])
		}
	}
	return ""
}

// Symbol returns the address of a function. A library without it is too old (or too new, for one
// that was removed).
func (l *Library) Symbol(name string) (uintptr, error) {
	return l.FirstSymbol(name)
}

// FirstSymbol returns the address of the first of these functions that the library has.
func (l *Library) FirstSymbol(names ...string) (uintptr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		address, known := l.found[name]
		if !known {
			address = symbol(l.handle, name)
			if l.found == nil {
				l.found = make(map[string]uintptr)
			}
			l.found[name] = address
		}
		if address != 0 {
			return address, nil
		}
	}
	return 0, fmt.Errorf("dl: %s has no function %s: %w", l.Path, names[0], ErrTooOld)
}

// Has says whether the library has a function.
func (l *Library) Has(name string) bool {
	_, err := l.Symbol(name)
	return err == nil
}

// Text copies text that C keeps at an address and ends with a zero; of very long text the
// beginning. 0 is no text.
func Text(address uintptr) string {
	if address == 0 {
		return ""
	}

	// It is memory of C, which does not move.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	n := 0
	for n < maxText && *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

const maxText = 1 << 16
