package dl

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A soname is the name under which a library is linked, and the major version of CUDA that it is
// built for; 0 is any.
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

// needs are the libraries that a library loads by their bare names while it works. Opened before
// it, from the places known here, they are found.
var needs = map[Name][]Name{
	CuBLAS: {CuBLASLt},
	CuDNN:  {CuBLASLt, CuBLAS, NVRTC},
	NCCL:   {CUDA, NVML},
}

// siblings are the parts of a library that it loads by their bare names, in an order that suits
// their own needs. They must come from its own folder: parts of two versions do not work together.
var siblings = map[Name][]string{
	CUDA:  {"libnvidia-ptxjitcompiler.so.1"}, // compiles PTX
	NVRTC: {"libnvrtc-builtins.so.*"},
	CuDNN: {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_engines_tensor_ir.so.9",
		"libcudnn_engines_runtime_compiled.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_heuristic.so.9"},
}

// wheels are the folders of a library in Python packages, below site-packages/nvidia: those of CUDA
// 13 first.
var wheels = map[Name][]string{
	CuBLASLt: {"cu13/lib", "cublas/lib"},
	CuBLAS:   {"cu13/lib", "cublas/lib"},
	NVRTC:    {"cu13/lib", "cuda_nvrtc/lib"},
	CuDNN:    {"cudnn/lib"},
	NCCL:     {"nccl/lib"},
}

// Variable returns the name of the environment variable that gives a library's path, or the folder
// it is in.
func (n Name) Variable() string {
	return "PARAGON_" + strings.ToUpper(strings.ReplaceAll(string(n), "-", "_")) + "_PATH"
}

// Candidates returns the paths at which a library is looked for, best first: files that are there,
// and bare names, which the system's loader may know.
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

// explicit is the path that was given for a library, in Paths or in the environment. A folder
// stands for the newest of the library's names in it.
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
		return []string{"/usr/local/nvidia/lib64", "/usr/lib/" + triplet(), "/usr/lib/" + triplet() + "/nvidia/current", "/usr/lib64", "/usr/lib/wsl/lib",
			"/run/opengl-driver/lib"}
	}
	var folders []string
	for _, installed := range s.chosen() {
		folders = append(folders, libraryFolders(installed)...)
	}
	for _, site := range s.sitePackages() {
		for _, wheel := range wheels[name] {
			folders = append(folders, filepath.Join(site, "nvidia", wheel))
		}
	}
	folders = append(folders, "/usr/lib/"+triplet(), "/usr/lib64")
	for _, installed := range s.glob("/usr/local/cuda*") {
		folders = append(folders, libraryFolders(installed)...)
	}
	return folders
}

// chosen are the installations that the environment names.
func (s *Search) chosen() []string {
	var folders []string
	for _, key := range []string{"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"} {
		if folder := s.getenv(key); filepath.IsAbs(folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// libraryFolders are those of an installation.
func libraryFolders(installed string) []string {
	return []string{filepath.Join(installed, "lib64"), filepath.Join(installed, "targets", target(), "lib"), filepath.Join(installed, "lib")}
}

// sitePackages are the folders of Python packages, those of the Python that a shell would start
// before those of others.
func (s *Search) sitePackages() []string {
	var folders []string
	add := func(found ...string) {
		for _, folder := range found {
			if !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	packages := func(prefix string) {
		for _, pattern := range []string{"lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages"} {
			add(s.glob(filepath.Join(prefix, pattern))...)
		}
	}
	for _, folder := range filepath.SplitList(s.getenv("PYTHONPATH")) {
		if filepath.IsAbs(folder) {
			add(folder)
		}
	}
	for _, key := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if env := s.getenv(key); env != "" {
			packages(env)
		}
	}
	for _, prefix := range s.pythons() {
		packages(prefix)
	}
	if home := s.getenv("HOME"); home != "" {
		packages(filepath.Join(home, ".local"))
	}
	for _, prefix := range []string{"/usr/local", "/usr", "/opt/*", "/opt/*/venv", "/opt/*/.venv"} {
		packages(prefix)
	}
	return folders
}

// pythons are the folders above bin/python3 for those of PATH, and where such a file is a link, for
// what it leads to step by step: a virtual environment's is one, and a link to a virtual
// environment's may lie in a folder of the system.
func (s *Search) pythons() []string {
	var prefixes []string
	for _, bin := range filepath.SplitList(s.getenv("PATH")) {
		file := filepath.Join(bin, "python3")
		if !filepath.IsAbs(bin) || !exists(s.Root+file) {
			continue
		}
		for range 10 {
			if prefix := filepath.Dir(filepath.Dir(file)); !slices.Contains(prefixes, prefix) {
				prefixes = append(prefixes, prefix)
			}
			to, err := os.Readlink(s.Root + file)
			if err != nil {
				break
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(file), to)
			}
			file = to
		}
	}
	return prefixes
}

// glob returns the folders that match a pattern below the root, without the root, the newest
// version first: cuda-13.0 before cuda-12.4, and before plain cuda, which is a link to one of them.
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

// preload opens the parts of a library that lie in its folder. What cannot be opened is said when
// the library is.
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

// Includes are where header files of the libraries may lie: folders of installations and of Python
// packages, and files in folders that have headers of other programs too, those of CPATH and of the
// system.
func (s *Search) Includes() []string {
	var folders []string
	for _, installed := range append(s.chosen(), s.glob("/usr/local/cuda*")...) {
		for _, pattern := range []string{"include", "targets/*/include"} {
			folders = append(folders, s.glob(filepath.Join(installed, pattern))...)
		}
	}
	for _, site := range s.sitePackages() {
		folders = append(folders, s.glob(filepath.Join(site, "nvidia/*/include"))...)
	}
	shared := []string{"/usr/include", "/usr/include/" + triplet()}
	for _, folder := range filepath.SplitList(s.getenv("CPATH")) {
		if filepath.IsAbs(folder) {
			shared = append([]string{folder}, shared...)
		}
	}
	for _, pattern := range []string{"cuda.h", "cudnn*.h", "cublas*.h", "library_types.h", "nccl.h", "nvrtc.h"} {
		for _, folder := range shared {
			folders = append(folders, s.glob(filepath.Join(folder, pattern))...)
		}
	}
	for i, folder := range folders {
		folders[i] = s.Root + folder
	}
	return folders
}
