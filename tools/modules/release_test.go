package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/paragon-train/paragon/version"
)

// needRelease skips a test that builds programs anew from a module proxy.
func needRelease(t *testing.T) {
	t.Helper()
	if os.Getenv("PARAGON_TEST_MODULES") == "" {
		t.Skip("it builds everything once more, as users of a release do: make testmodules (PARAGON_TEST_MODULES=1)")
	}
}

// A sourceFile is a file of a module as its zip has it.
type sourceFile struct {
	// name is that in the module.
	name string

	path string
}

func (f sourceFile) Path() string                { return f.name }
func (f sourceFile) Lstat() (os.FileInfo, error) { return os.Lstat(f.path) }
func (f sourceFile) Open() (io.ReadCloser, error) {
	return os.Open(f.path)
}

// A release is this source as a module proxy serves it, as if it were tagged.
type release struct {
	used []Module

	// proxy is the URL of the module proxy.
	proxy string

	// cache is GOMODCACHE: this machine's, but for modules of the repository.
	cache string

	// others is the GOPROXY of this machine.
	others string
}

func newRelease(t *testing.T) *release {
	t.Helper()
	used := modules(t)
	apart, err := Apart(root, used)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(root, nil, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	if err != nil {
		t.Skipf("the files of a release are those that git has: %v", err)
	}

	// borders are folders of modules, with a slash at the end.
	borders := []string{}
	for _, m := range used[1:] {
		borders = append(borders, m.Folder+"/")
	}
	for _, a := range apart {
		borders = append(borders, strings.TrimPrefix(filepath.ToSlash(a), root+"/")+"/")
	}

	// files are by module's folder.
	files := map[string][]modzip.File{}
	for _, name := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err != nil || !info.Mode().IsRegular() {
			// The file is removed, and that is not committed yet.
			continue
		}
		of := ""
		for _, b := range borders {
			if strings.HasPrefix(name, b) && len(b) > len(of) {
				of = b
			}
		}
		folder := "."
		if of != "" {
			folder = strings.TrimSuffix(of, "/")
		}
		files[folder] = append(files[folder], sourceFile{strings.TrimPrefix(name, of), filepath.Join(root, name)})
	}

	others, err := run(root, nil, "go", "env", "GOPROXY")
	must(t, err)
	r := &release{used: used, cache: overlay(t), others: strings.TrimSpace(others)}
	served := t.TempDir()
	for _, m := range used {
		v := module.Version{Path: m.Path, Version: "v" + version.Number}
		folder := filepath.Join(served, filepath.FromSlash(m.Path), "@v")
		must(t, os.MkdirAll(folder, 0o755))
		z, err := os.Create(filepath.Join(folder, v.Version+".zip"))
		must(t, err)
		must(t, modzip.Create(z, v, files[m.Folder]))
		must(t, z.Close())
		mod, err := os.ReadFile(filepath.Join(root, m.Folder, "go.mod"))
		must(t, err)
		info, err := json.Marshal(map[string]any{"Version": v.Version, "Time": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, v.Version+".mod"), mod, 0o644))
		must(t, os.WriteFile(filepath.Join(folder, v.Version+".info"), info, 0o644))
		must(t, os.WriteFile(filepath.Join(folder, "list"), []byte(v.Version+"\n"), 0o644))
	}
	r.proxy = "file://" + filepath.ToSlash(served)
	return r
}

// overlay makes a module cache that has links to what this machine's has, but for the modules of
// this repository: what is there is neither fetched nor unpacked again, and a release of a test
// stays in the test.
func overlay(t *testing.T) string {
	t.Helper()
	out, err := run(root, nil, "go", "env", "GOMODCACHE")
	must(t, err)
	from, to := strings.TrimSpace(out), t.TempDir()

	// Go makes the folders of a cache read-only.
	t.Cleanup(func() {
		_ = filepath.WalkDir(to, func(file string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(file, 0o755)
			}
			return nil
		})
	})
	var link func(at string)
	link = func(at string) {
		must(t, os.MkdirAll(filepath.Join(to, at), 0o755))
		entries, err := os.ReadDir(filepath.Join(from, at))
		if err != nil {
			// Nothing is there yet.
			return
		}
		for _, e := range entries {
			switch name := path.Join(at, e.Name()); {
			case slices.Contains([]string{"cache", "cache/download", "cache/download/github.com", "github.com"}, name):
				link(name)
			case strings.HasSuffix(name, "github.com/paragon-train") || name == "cache/lock":
			default:
				must(t, os.Symlink(filepath.Join(from, name), filepath.Join(to, name)))
			}
		}
	}
	link(".")
	return to
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// env is that of somebody who gets modules from the release's proxy, and others from where they
// come from on this machine. With -trimpath, Go knows what it compiled for another test, whose
// module cache has another path.
func (r *release) env(more ...string) []string {
	return append([]string{"GOWORK=off", "GOPROXY=" + r.proxy + "," + r.others, "GOMODCACHE=" + r.cache, "GOSUMDB=off", "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0"}, more...)
}

// goIn runs the go command in a folder.
func (r *release) goIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := run(folder, r.env(), "go", args...)
	must(t, err)
	return out
}

// program makes a module outside the repository with one file.
func program(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/train\n\ngo 1.26.0\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(text), 0o644))
	return folder
}

func imports(packages ...string) string {
	text := "package main\n\n"
	for _, p := range packages {
		text += fmt.Sprintf("import _ %q\n", rootPath+"/"+p)
	}
	return text + "\nfunc main() {}\n"
}

// weight counts what a program outside inherits of modules, links of packages of others, and
// weighs.
func (r *release) weight(t *testing.T, folder string) (names, packages int, bytes int64) {
	t.Helper()
	seen := map[string]bool{}
	for _, word := range strings.Fields(r.goIn(t, folder, "mod", "graph")) {
		name, _, _ := strings.Cut(word, "@")
		seen[name] = true
	}
	for _, pkg := range strings.Fields(r.goIn(t, folder, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		if !strings.HasPrefix(pkg, rootPath+"/") && pkg != "example.com/train" {
			packages++
		}
	}
	r.goIn(t, folder, "build", "-o", "program")
	info, err := os.Stat(filepath.Join(folder, "program"))
	must(t, err)
	return len(seen), packages, info.Size()
}

// A program outside the repository builds against a release, and inherits little.
func TestAProgramOutsideBuildsAgainstARelease(t *testing.T) {
	needRelease(t)
	r := newRelease(t)
	for _, c := range []struct {
		name            string
		text            string
		names, packages int
		bytes           int64
	}{
		{"kvstore", imports("kvstore"), 150, 8, 10e6},
		{"kvstore, worker and nn", imports("kvstore", "worker", "nn"), 150, 110, 25e6},
	} {
		folder := program(t, c.text)
		r.goIn(t, folder, "mod", "tidy")
		names, packages, bytes := r.weight(t, folder)
		t.Logf("a program with %s: %d modules in its graph, %d packages of others, %.1f MB", c.name, names, packages, float64(bytes)/1e6)
		if names > c.names || packages > c.packages || bytes > c.bytes {
			t.Errorf("a program with %s has %d modules in its graph, %d packages of others and %d bytes, want at most %d, %d and %d", c.name, names, packages, bytes, c.names, c.packages, c.bytes)
		}
	}

	// A trainer, once from the proxy and once from the clone by a replace directive, says the
	// version it was built with and trains.
	text, err := os.ReadFile(filepath.Join(root, "examples", "gorgonia", "main.go"))
	must(t, err)
	folder := program(t, string(text))
	r.goIn(t, folder, "mod", "tidy")
	trains := func(want string) {
		t.Helper()
		r.goIn(t, folder, "build", "-o", "program")
		said, err := run(folder, nil, filepath.Join(folder, "program"), "--version")
		must(t, err)
		if want = "program version " + want + " ("; !strings.HasPrefix(said, want) {
			t.Errorf("the trainer says %q, want %q", said, want)
		}
		if _, err := run(folder, nil, filepath.Join(folder, "program"), "--out", t.TempDir()); err != nil {
			t.Error(err)
		}
	}
	trains(version.Number)
	clone, err := filepath.Abs(root)
	must(t, err)
	r.goIn(t, folder, "mod", "edit", "-replace", rootPath+"="+clone)
	r.goIn(t, folder, "mod", "tidy")
	trains(version.Number + "+unknown")
}

// go install gets launch and an example of a release.
func TestLaunchIsInstalledFromARelease(t *testing.T) {
	needRelease(t)
	r := newRelease(t)
	bin := t.TempDir()
	_, err := run(t.TempDir(), r.env("GOBIN="+bin), "go", "install", rootPath+"/launch@v"+version.Number)
	must(t, err)
	said, err := run(bin, nil, filepath.Join(bin, "launch"), "--version")
	must(t, err)
	if want := "launch version " + version.Number + " ("; !strings.HasPrefix(said, want) {
		t.Errorf("launch says %q, want %q", said, want)
	}
}

// Each module is whole without the workspace, with what its own go.mod names and the release of the
// others: all of it compiles, and tests that start no programs of other modules pass.
func TestModulesBuildAlone(t *testing.T) {
	needRelease(t)
	r := newRelease(t)

	// These are short: the workspace's run tests all.
	tested := map[string]string{"launch": "./internal/...", "checkpoint/bucket": "./...", "data/formats": "./...", "tools": "./docgen"}

	// The target testmodules tests the root's by itself.
	for _, m := range r.used[1:] {
		folder := filepath.Join(root, m.Folder)
		mod := filepath.Join(t.TempDir(), "go.mod")
		must(t, copyFile(mod, filepath.Join(folder, "go.mod")))
		must(t, copyFile(strings.TrimSuffix(mod, "mod")+"sum", filepath.Join(folder, "go.sum")))
		before, err := os.ReadFile(mod)
		must(t, err)
		flags := []string{"-modfile=" + mod, "-tags=nobuckets,s3only"}

		// The command compiles tests, too, and links none.
		r.goIn(t, folder, slices.Concat([]string{"vet"}, flags, []string{"./..."})...)
		if tests := tested[m.Folder]; tests != "" {
			r.goIn(t, folder, slices.Concat([]string{"test", "-vet=off", "-ldflags=-s -w", "-short"}, flags, []string{tests})...)
		}
		if after, err := os.ReadFile(mod); err != nil || string(after) != string(before) {
			t.Errorf("%s/go.mod lacks something (%v): run make tidy. It became\n%s", m.Folder, err, after)
		}
	}
}

// A release has nothing that is of the clone alone.
func TestAReleaseHasNoProgramsOrData(t *testing.T) {
	needRelease(t)
	r := newRelease(t)
	for _, m := range r.used {
		z, err := zip.OpenReader(filepath.Join(strings.TrimPrefix(r.proxy, "file://"), filepath.FromSlash(m.Path), "@v", "v"+version.Number+".zip"))
		must(t, err)
		total := uint64(0)
		for _, f := range z.File {
			total += f.CompressedSize64
		}
		z.Close()
		t.Logf("%s: %d files, %.1f MB packed", m.Path, len(z.File), float64(total)/1e6)
		if total > 30e6 {
			t.Errorf("the release of %s has %d bytes, want at most 30 MB", m.Path, total)
		}
	}
}
