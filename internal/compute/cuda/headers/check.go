package headers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// A Value is a constant.
type Value struct {
	// Name is that in the header.
	Name string

	Want int64

	// Go is the Go constant, package.name; empty: the name is beside the value in the Go code.
	Go string
}

// A Difference is a constant that a header has another value for.
type Difference struct {
	Name       string
	Ours, Have int64
	File       string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: ours is %d, %s has %d", d.Name, d.Ours, d.File, d.Have)
}

// A Result is what a check found.
type Result struct {
	Files []string // the headers that were read

	// Compared is how many constants are in one of them.
	Compared int

	// Missing are constants that are in none, in the order of Values.
	Missing []string

	Differ []Difference
}

func (r Result) String() string {
	if len(r.Files) == 0 {
		return "no headers of CUDA on this machine"
	}
	return fmt.Sprintf("%d of %d constants are in %d headers, %d differ", r.Compared, r.Compared+len(r.Missing), len(r.Files), len(r.Differ))
}

// maxHeader bounds what is read of a file.
const maxHeader = 8 << 20

// relevant says whether a header may have our constants. Others are not read.
func relevant(file string) bool {
	name := filepath.Base(file)
	switch name {
	case "cuda.h", "nccl.h", "nvrtc.h", "library_types.h":
		return true
	}
	return filepath.Ext(name) == ".h" && (strings.HasPrefix(name, "cudnn") || strings.HasPrefix(name, "cublas"))
}

// Folders are those in which headers of CUDA may lie: beside the libraries that the search finds,
// and where installations and Python packages have them.
func Folders(s *dl.Search) []string {
	return s.Includes()
}

// Check reads the headers below folders and compares. Files that cannot be read are passed over.
func Check(folders []string) Result {
	type have struct {
		value int64
		file  string
	}
	var r Result
	seen := make(map[string]bool)
	all := make(map[string]have)
	for _, folder := range folders {
		filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !relevant(path) {
				return nil
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil || seen[real] {
				return nil
			}
			seen[real] = true
			info, err := os.Stat(real)
			if err != nil || !info.Mode().IsRegular() || info.Size() > maxHeader {
				return nil
			}
			text, err := os.ReadFile(real)
			if err != nil {
				return nil
			}
			r.Files = append(r.Files, path)
			for name, value := range Constants(string(text)) {
				if _, known := all[name]; !known {
					all[name] = have{value, path}
				}
			}
			return nil
		})
	}
	done := make(map[string]bool)
	for _, v := range Values {
		if done[v.Name] {
			continue
		}
		done[v.Name] = true
		h, ok := all[v.Name]
		switch {
		case !ok:
			r.Missing = append(r.Missing, v.Name)
		default:
			r.Compared++
			if h.value != v.Want {
				r.Differ = append(r.Differ, Difference{v.Name, v.Want, h.value, h.file})
			}
		}
	}
	return r
}
