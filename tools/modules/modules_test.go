package main

import (
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/version"
)

const root = "../.."

const rootPath = "github.com/paragon-train/paragon"

func modules(t *testing.T) []Module {
	t.Helper()
	used, err := Used(root)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// What go.work joins is one release: the modules lie where their paths say, have the version of
// this source, and nothing that go install refuses.
func TestModulesAreOneRelease(t *testing.T) {
	used := modules(t)
	if used[0].Path != rootPath || used[0].Folder != "." {
		t.Fatalf("the first module is %s in %s, want the root's", used[0].Path, used[0].Folder)
	}
	work, err := readWork(root)
	if err != nil {
		t.Fatal(err)
	}
	const release = "v" + version.Number

	// required are the repository's modules that others require.
	required := map[string]bool{}
	for _, m := range used {
		if want := path.Join(rootPath, m.Folder); m.Path != want {
			t.Errorf("%s/go.mod is of %s, want %s", m.Folder, m.Path, want)
		}
		if m.Go != work.Go {
			t.Errorf("%s/go.mod has go %s, and go.work %s", m.Folder, m.Go, work.Go)
		}
		if m.Replaces > 0 {
			t.Errorf("%s/go.mod has replace directives, with which go install refuses it", m.Folder)
		}
		for _, o := range used {
			v := m.Version(o.Path)
			required[o.Path] = required[o.Path] || v != ""
			if v != "" && v != release {
				t.Errorf("%s/go.mod requires %s at %s, want %s: all modules of a release have one version", m.Folder, o.Path, v, release)
			}
		}
	}
	replaced := map[string]bool{}
	for _, r := range work.Replace {
		replaced[r.Old.Path] = true
		folder := "./" + strings.TrimPrefix(strings.TrimPrefix(r.Old.Path, rootPath), "/")
		if r.Old.Version != release || r.New.Path != folder {
			t.Errorf("go.work replaces %s %s by %s, want %s by %s", r.Old.Path, r.Old.Version, r.New.Path, release, folder)
		}
	}
	for name, want := range required {
		if want != replaced[name] {
			t.Errorf("%s: some module requires it: %t; go.work replaces it: %t", name, want, replaced[name])
		}
	}
}

// The packages that commands reach by the pattern work are those of all folders with Go files, but
// for the modules apart.
func TestTheWorkspaceHasEveryFolder(t *testing.T) {
	used := modules(t)
	apart, err := Apart(root, used)
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range apart {
		apart[i] = strings.TrimPrefix(filepath.ToSlash(folder), root+"/")
	}
	if want := []string{"data/internal/pixel/gen", "internal/compute/f32/gen", "launch/internal/kubernetes/schematest", "tools/golangci"}; !slices.Equal(apart, want) {
		t.Errorf("modules apart are %q, want %q", apart, want)
	}
	folders := map[string]bool{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		rel := strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(file), root), "/")
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") || rel == "bin" || slices.Contains(apart, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			folders[path.Join(rootPath, path.Dir(rel))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(root, nil, "go", "list", "-e", "work")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, pkg := range strings.Fields(out) {
		listed[pkg] = true
	}
	for _, pkg := range slices.Sorted(maps.Keys(folders)) {
		if !listed[pkg] {
			t.Errorf("go list work does not have %s", pkg)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(listed)) {
		if !folders[pkg] {
			t.Errorf("go list work has %s, where no folder of Go files was found", pkg)
		}
	}
}

// heavy are modules whose version floors no trainer shall inherit, by the beginnings of their
// paths.
var heavy = []string{"k8s.io/", "sigs.k8s.io/", "google.golang.org/grpc", "go.opentelemetry.io/", "cloud.google.com/", "gocloud.dev", "github.com/aws/", "github.com/Azure/",
	"charm.land/", "github.com/charmbracelet/", "github.com/prometheus/", "github.com/chromedp/", "github.com/urfave/", "github.com/valyala/"}

// The root module is what a trainer inherits. Each further requirement is a version floor for every
// user.
func TestTheRootModuleIsLight(t *testing.T) {
	direct := []string{}
	for _, r := range modules(t)[0].Requires {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
		for _, h := range heavy {
			if strings.HasPrefix(r.Path, h) {
				t.Errorf("the root module requires %s: what needs it belongs into another module", r.Path)
			}
		}
	}
	if len(direct) > 16 {
		t.Errorf("the root module has %d direct requirements, want at most 16: %q", len(direct), direct)
	}
}
