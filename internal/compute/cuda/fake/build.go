package fake

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// A source is one library to be built.
type source struct {
	name dl.Name // "" for one that another opens

	// file is the library's, by its soname.
	file string

	// main is the file that is compiled, from the module's root. Where it is not there the library
	// is left out.
	main string

	// depends are patterns of the files that it includes.
	depends []string

	flags  []string
	driver bool // calls the fake driver
}

const here = "internal/compute/cuda/fake/src/"

// sources are all libraries.
var sources = []source{
	{name: dl.CUDA, file: "libcuda.so.1", main: here + "driver.cpp", depends: []string{here + "*.inc", here + "*.h"}},
	{name: dl.NVRTC, file: "libnvrtc.so.13", main: here + "nvrtc.cpp"},
	{name: dl.NCCL, file: "libnccl.so.2", main: here + "nccl.cpp", depends: []string{here + "*.h"}, driver: true},
	{name: dl.CuDNN, file: "libcudnn.so.9", main: here + "cudnn/cudnn.cpp", depends: []string{here + "cudnn/*", here + "*.h"},
		flags: []string{"-O2"}, driver: true},
	{name: dl.CuBLASLt, file: "libcublasLt.so.13", main: here + "cublaslt/cublaslt.cpp", depends: []string{here + "cublaslt/*", here + "*.h"},
		flags: []string{"-O2"}, driver: true},
	{file: "libemu-test.so", main: here + "testkernels.cpp"},
	{file: "libemu.so", main: "internal/compute/cuda/kernels/src/kernels.cu", depends: []string{"internal/compute/cuda/kernels/src/*"},
		flags: []string{"-O2", "-DGPU_EMU", "-w"}},
}

// Libraries builds the stand-ins and returns their paths. It skips the test where there is no C++
// compiler (or fails it, under PARAGON_TEST_REQUIRE=all) and in builds without CUDA. What was built
// is kept in the user's cache folder under the hash of its sources, for the next test binary.
func Libraries(t testing.TB) dl.Paths {
	t.Helper()
	if err := dl.Supported(); err != nil {
		t.Skip(err)
	}
	if _, err := compiler(); err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			t.Fatalf("PARAGON_TEST_REQUIRE=all, and %v", err)
		}
		t.Skip(err)
	}
	paths, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// compiler is what g++ says of itself.
var compiler = sync.OnceValues(func() ([]byte, error) {
	version, err := exec.Command("g++", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("fake: no C++ compiler: %w", err)
	}
	return version, nil
})

// built builds them once for this process.
var built = sync.OnceValues(func() (dl.Paths, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(os.TempDir(), fmt.Sprintf("paragon-fakes-%d", os.Getuid()))
	if user, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(user, "paragon-fakes")
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}

	// One process builds, and the others find it done.
	unlock, err := lock(cache)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return build(root, cache)
})

// build makes what is missing in the cache, and a folder of links to what belongs together.
func build(root, cache string) (dl.Paths, error) {
	var wanted []source
	for _, s := range sources {
		if _, err := os.Stat(filepath.Join(root, s.main)); err == nil {
			wanted = append(wanted, s)
		}
	}
	objects := make([]string, len(wanted))
	compile := func(above bool, driver string) error {
		var g errgroup.Group
		for i, s := range wanted {
			if s.driver == above {
				g.Go(func() (err error) {
					objects[i], err = s.compile(root, cache, driver)
					return err
				})
			}
		}
		return g.Wait()
	}
	// Those that call the driver are linked to it. It is the first.
	if err := compile(false, ""); err != nil {
		return nil, err
	}
	if err := compile(true, objects[0]); err != nil {
		return nil, err
	}
	set := sha256.New()
	for _, o := range objects {
		fmt.Fprintln(set, o)
	}
	folder := filepath.Join(cache, fmt.Sprintf("set-%.12x", set.Sum(nil)))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	paths := make(dl.Paths)
	for i, s := range wanted {
		path := filepath.Join(folder, s.file)
		if err := os.Link(objects[i], path); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		if s.name != "" {
			paths[s.name] = path
		}
	}
	used := append(slices.Clone(objects), folder)
	for _, path := range used {
		now := time.Now()

		// prune removes what was not used for longest.
		os.Chtimes(path, now, now)
	}
	prune(cache, used)
	return paths, nil
}

// compile builds a library unless it is in the cache, and returns its path there.
func (s source) compile(root, cache, driver string) (string, error) {
	version, err := compiler()
	if err != nil {
		return "", err
	}
	args := append([]string{"-std=c++17", "-O1", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden", "-x", "c++"}, s.flags...)
	args = append(args, filepath.FromSlash(s.main), "-x", "none", "-Wl,-soname,"+s.file)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%q\n", version, args)
	if s.driver {
		// Only the driver's soname goes into the library, so another driver does for it as
		// well.
		args = append(args, driver, "-Wl,-rpath,$ORIGIN")
	}
	for _, pattern := range append([]string{s.main}, s.depends...) {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(file), len(text), text)
		}
	}
	object := filepath.Join(cache, fmt.Sprintf("%.12x-%s", sum.Sum(nil), s.file))
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	half := object + ".half"
	cmd := exec.Command("g++", append(args, "-o", half, "-ldl")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fake: compile %s: %w\n%s", s.main, err, bytes.TrimSpace(out))
	}
	return object, os.Rename(half, object)
}

// kept is how many old things stay in the cache.
const kept = 40

// prune removes the oldest of what is in the cache, but not what is used now.
func prune(cache string, used []string) {
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) <= kept {
		return
	}
	age := func(e os.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(age(a), age(b)) })
	for _, e := range entries[:len(entries)-kept] {
		if path := filepath.Join(cache, e.Name()); !slices.Contains(used, path) && e.Name() != lockFile {
			os.RemoveAll(path)
		}
	}
}

// repositoryRoot is the folder above the test's with go.work, or without one that with go.mod.
func repositoryRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, file := range []string{"go.work", "go.mod"} {
		for folder := wd; ; folder = filepath.Dir(folder) {
			if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
				return folder, nil
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return "", errors.New("fake: no go.mod above the working folder")
}

const lockFile = "lock"
