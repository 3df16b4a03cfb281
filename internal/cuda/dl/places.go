package dl

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A soname is the name under which a library is linked, and the major version of CUDA that it is built for; 0 is any.
type soname struct {
	file  string
	major int
}

// sonames are the names of each library, newest first.
var sonames = map[Name][]soname{
	CUDA:     {{"libcuda.so.1", 0}},
	NVML:     {{"libnvidia-ml.so.1", 0}},
	CuBLASLt: {{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}},
	CuBLAS:   {{"libcublas.so.13", 13}, {"libcublas.so.12", 12}},
	NVRTC:    {{"libnvrtc.so.13", 13}, {"libnvrtc.so.12", 12}},
	CuDNN:    {{"libcudnn.so.9", 0}},
	NCCL:     {{"libnccl.so.2", 0}},
}

// needs are the libraries that a library loads by their bare names while it works. Opened before it, from the places known here, they
// are found.
var needs = map[Name][]Name{
	CuBLAS: {CuBLASLt},
	CuDNN:  {CuBLASLt, CuBLAS, NVRTC},
}

// siblings are the parts of a library that it loads by their bare names, in an order that suits their own needs. They must come from
// its own folder: parts of two versions do not work together.
var siblings = map[Name][]string{
	NVRTC: {"libnvrtc-builtins.so.*"},
	CuDNN: {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_engines_tensor_ir.so.9",
		"libcudnn_engines_runtime_compiled.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_heuristic.so.9"},
}

// wheels are the folders of a library in Python packages, below site-packages/nvidia: those of CUDA 13 first.
var wheels = map[Name][]string{
	CuBLASLt: {"cu13/lib", "cublas/lib"},
	CuBLAS:   {"cu13/lib", "cublas/lib"},
	NVRTC:    {"cu13/lib", "cuda_nvrtc/lib"},
	CuDNN:    {"cudnn/lib"},
	NCCL:     {"nccl/lib"},
}

// Variable returns the name of the environment variable that gives a library's path, or the folder it is in.
func (n Name) Variable() string {
	return "PARAGON_" + strings.ToUpper(strings.ReplaceAll(string(n), "-", "_")) + "_PATH"
}

// Candidates returns the paths at which a library is looked for, best first: files that are there, and bare names, which
// the system's loader may know.
func (s *Search) Candidates(name Name) []string {
	if path := s.explicit(name); path != "" {
		return []string{path}
	}
	if s.Only {
		return nil
	}
	var paths []string
	for _, so := range sonames[name] {
		if s.Major != 0 && so.major > s.Major {
			continue
		}
		for _, folder := range filepath.SplitList(s.getenv("LD_LIBRARY_PATH")) {
			paths = s.add(paths, filepath.Join(folder, so.file))
		}
		if s.Root == "" {
			paths = append(paths, so.file)
		}
		for _, folder := range s.folders(name) {
			paths = s.add(paths, filepath.Join(folder, so.file))
		}
	}
	return paths
}

// explicit is the path that was given for a library, in Paths or in the environment. A folder stands for the newest of the library's names in it.
func (s *Search) explicit(name Name) string {
	path := s.Paths[name]
	if path == "" && !s.Only {
		path = s.getenv(name.Variable())
	}
	if path == "" {
		return ""
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		for _, so := range sonames[name] {
			if file := filepath.Join(path, so.file); exists(file) {
				return file
			}
		}
		return filepath.Join(path, sonames[name][0].file)
	}
	return path
}

// folders are those in which a library may lie, below the root.
func (s *Search) folders(name Name) []string {
	if name == CUDA || name == NVML {
		return []string{"/usr/local/nvidia/lib64", "/usr/lib/" + triplet(), "/usr/lib64", "/usr/lib/wsl/lib"}
	}
	var folders []string
	for _, site := range s.sitePackages() {
		for _, wheel := range wheels[name] {
			folders = append(folders, filepath.Join(site, "nvidia", wheel))
		}
	}
	folders = append(folders, "/usr/lib/"+triplet(), "/usr/lib64")
	for _, installed := range s.glob("/usr/local/cuda*") {
		folders = append(folders, filepath.Join(installed, "lib64"), filepath.Join(installed, "targets", target(), "lib"))
	}
	return folders
}

// sitePackages are the folders of Python packages.
func (s *Search) sitePackages() []string {
	var patterns []string
	for _, key := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if env := s.getenv(key); env != "" {
			patterns = append(patterns, filepath.Join(env, "lib/python3*/site-packages"))
		}
	}
	if home := s.getenv("HOME"); home != "" {
		patterns = append(patterns, filepath.Join(home, ".local/lib/python3*/site-packages"))
	}
	patterns = append(patterns, "/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
		"/usr/lib/python3*/site-packages", "/usr/lib/python3*/dist-packages", "/opt/*/lib/python3*/site-packages")
	// The Python that a shell would start.
	for _, bin := range filepath.SplitList(s.getenv("PATH")) {
		if python := filepath.Join(bin, "python3"); exists(s.Root + python) {
			patterns = append(patterns, filepath.Join(filepath.Dir(bin), "lib/python3*/site-packages"))
		}
	}
	var folders []string
	for _, pattern := range patterns {
		for _, folder := range s.glob(pattern) {
			if !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	return folders
}

// glob returns the folders that match a pattern below the root, without the root, the newest version first: cuda-13.0 before
// cuda-12.4, and before plain cuda, which is a link to one of them.
func (s *Search) glob(pattern string) []string {
	matches, err := filepath.Glob(s.Root + pattern)
	if err != nil {
		return nil
	}
	for i, m := range matches {
		matches[i] = strings.TrimPrefix(m, s.Root)
	}
	slices.SortStableFunc(matches, func(a, b string) int { return ParseVersion(b).Compare(ParseVersion(a)) })
	return matches
}

// add appends a file, with the root, if it is there and not yet in the list.
func (s *Search) add(paths []string, file string) []string {
	file = s.Root + file
	if !exists(file) || slices.Contains(paths, file) {
		return paths
	}
	return append(paths, file)
}

// preload opens the parts of a library that lie in its folder. What cannot be opened is said when the library is.
func (s *Search) preload(name Name, path string) {
	if !filepath.IsAbs(path) {
		return
	}
	for _, pattern := range siblings[name] {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
		if err != nil {
			continue
		}
		for _, file := range files {
			open(file)
		}
	}
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.IsDir()
}

// isStub says whether a path is in a folder of libraries that are there for linkers alone.
func isStub(path string) bool {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return slices.Contains(strings.Split(filepath.Dir(path), string(filepath.Separator)), "stubs")
}

// triplet is the name of the folder of system libraries on Debian's relatives.
func triplet() string {
	if runtime.GOARCH == "arm64" {
		return "aarch64-linux-gnu"
	}
	return "x86_64-linux-gnu"
}

// target is the name of the folder of libraries in a CUDA installation.
func target() string {
	if runtime.GOARCH == "arm64" {
		return "sbsa-linux"
	}
	return "x86_64-linux"
}

// Includes are the folders in which header files of the libraries may lie: those of installations, of Python packages and of the system.
func (s *Search) Includes() []string {
	var folders []string
	for _, pattern := range []string{"/usr/local/cuda*/include", "/usr/local/cuda*/targets/*/include"} {
		folders = append(folders, s.glob(pattern)...)
	}
	for _, site := range s.sitePackages() {
		folders = append(folders, s.glob(filepath.Join(site, "nvidia/*/include"))...)
	}
	for i, folder := range folders {
		folders[i] = s.Root + folder
	}
	for _, pattern := range []string{"cuda.h", "cudnn*.h", "cublas*.h", "nccl.h", "nvrtc.h"} {
		for _, folder := range []string{"/usr/include/", "/usr/include/" + triplet() + "/"} {
			for _, file := range s.glob(folder + pattern) {
				folders = append(folders, s.Root+file)
			}
		}
	}
	return folders
}
