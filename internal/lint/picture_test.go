package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/imports"
)

// The picture's floors say most of who may import whom (package imports). A barrier forbids more,
// below its folder.
type barrier struct {
	folder string

	// never are folders that it does not import. only, if not nil, are all folders besides its own
	// that it may import.
	never, only []string

	// but are folders below that the barrier does not hold for.
	but []string

	why string
}

var barriers = []barrier{
	{folder: "worker", never: roles, why: "the roles meet in internal/store/wire alone"},
	{folder: "server", only: []string{"internal/store", "internal/member", "internal/observe", "internal/files", "optim"}, why: "the roles meet in internal/store/wire alone"},
	{folder: "schedulernode", only: []string{"internal/member", "internal/observe", "internal/files"}, why: "the roles meet in internal/store/wire alone"},
	{folder: "examples", never: []string{"internal", "launch", "server", "schedulernode"}, why: "examples are programs as users write them"},
	{folder: "examples/customtrainer", only: []string{"kvstore", "optim", "version"}, why: "it shows the store alone"},
	{folder: "launch/internal", but: []string{"launch/internal/command", "launch/internal/bridge"}, never: []string{"worker", "server", "schedulernode", "tune", "kvstore", "nn", "optim", "internal/member/cluster", "internal/member/scheduler"}, why: "what starts processes knows nothing of what they do"},
	{folder: "tune", never: []string{"kvstore", "nn", "optim", "data"}, why: "a search knows nothing of what a trial computes"},
	{folder: "tune", but: []string{"tune/show"}, never: []string{"metrics/plot"}, why: "the plotting library is large"},
	{folder: "worker", never: []string{"metrics/plot"}, why: "the plotting library is large"},
	{folder: "kvstore", never: []string{"adapt", "nn", "data"}, why: "a store holds values, whatever they are of"},
	{folder: "internal/store/shard", never: []string{"internal/store/transport", "internal/store/hostsum"}, why: "a round's rules have no network"},
	{folder: "internal/store/transport", never: []string{"internal/store/shard"}, why: "messages are carried, whatever they say"},
	{folder: "internal/store/wire", never: []string{"internal/store/shard", "internal/store/transport"}, why: "a format stands below those who speak it"},
	{folder: "nn", never: []string{"optim"}, why: "a model says nothing of how it is trained"},
	{folder: "optim", never: []string{"nn"}, why: "an optimizer sees values and gradients alone"},
	{folder: "sampler", only: []string{}, why: "a division of the data is a formula"},
	{folder: "adapt", only: []string{}, why: "a choice of batch and scale is a formula"},
	{folder: "checkpoint", never: []string{"metrics"}, why: "values and curves are kept apart"},
	{folder: "metrics", never: []string{"checkpoint"}, why: "values and curves are kept apart"},
}

// roles never import each other.
var roles = []string{"worker", "server", "schedulernode"}

// outside are folders that stand outside of the picture and may import anything. The one of cuda
// stands in for NVIDIA's libraries in tests.
var outside = []string{"tools", "docs", "internal/compute/cuda/fake"}

// covers reports whether pkg is folder or below it.
func covers(folder, pkg string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func coversAny(folders []string, pkg string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return covers(f, pkg) })
}

// breach says why the barrier forbids an import, or returns "".
func (w barrier) breach(pkg, imported string) string {
	if !covers(w.folder, pkg) || covers(w.folder, imported) || slices.ContainsFunc(w.but, func(folder string) bool { return covers(folder, pkg) }) {
		return ""
	}
	if coversAny(w.never, imported) || w.only != nil && !coversAny(w.only, imported) {
		return fmt.Sprintf("%s imports %s: %s", pkg, imported, w.why)
	}
	return ""
}

// refusal says why the picture forbids an import, or returns "".
func refusal(pkg, imported string) string {
	if imports.OfTests(pkg) || coversAny(outside, pkg) {
		return ""
	}
	from, room, ok := imports.RoomOf(pkg)
	if !ok {
		return fmt.Sprintf("%s has no room in the picture: add its folder to imports.Floors", pkg)
	}
	to, other, ok := imports.RoomOf(imported)
	if !ok {
		if covers("bench", pkg) && imports.OfTests(imported) {
			return ""
		}
		return fmt.Sprintf("%s imports %s, which is not of the picture", pkg, imported)
	}
	if room.Name != other.Name && from >= to {
		return fmt.Sprintf("%s imports %s: room %q does not stand above %q", pkg, imported, room.Name, other.Name)
	}
	for _, w := range barriers {
		if why := w.breach(pkg, imported); why != "" {
			return why
		}
	}
	return ""
}

// violations are the imports that the picture does not have; imported has the packages of this
// module that each one imports.
func violations(imported map[string][]string) (bad []string) {
	for _, pkg := range slices.Sorted(maps.Keys(imported)) {
		for _, to := range imported[pkg] {
			if why := refusal(pkg, to); why != "" {
				bad = append(bad, why)
			}
		}
		if _, _, ok := imports.RoomOf(pkg); !ok && len(imported[pkg]) == 0 && !imports.OfTests(pkg) && !coversAny(outside, pkg) && !covers("internal/lint", pkg) {
			bad = append(bad, fmt.Sprintf("%s has no room in the picture: add its folder to imports.Floors", pkg))
		}
	}
	return bad
}

func TestImportsFollowThePicture(t *testing.T) {
	imported := theRepository(t).imports(imports.Module)
	if len(imported["launch"]) == 0 || len(imported["internal/member/cluster"]) == 0 {
		t.Fatalf("the imports of launch and cluster were not found among %d packages", len(imported))
	}
	for _, v := range violations(imported) {
		t.Error(v)
	}
}

// With more rooms than this the picture explains nothing.
func TestThePictureIsSmall(t *testing.T) {
	rooms := 0
	for _, floor := range imports.Floors() {
		rooms += len(floor)
	}
	if rooms > 16 {
		t.Errorf("got %d rooms, want 16 at most", rooms)
	}
}

// onlyIn are libraries that shall not become part of workers' programs, and the folders that may
// import them.
var onlyIn = map[string]string{
	"go.opentelemetry.io/":                    "launch/internal/otel",
	"github.com/chromedp/":                    "tools/browser",
	"github.com/google/go-containerregistry/": "launch/internal/image",
	"gonum.org/v1/plot":                       "metrics/plot",
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	for library, folder := range onlyIn {
		imported := theRepository(t).imports(library)
		if len(imported[folder]) == 0 {
			t.Errorf("%s does not import %s: take it out of the table", folder, library)
		}
		for pkg, list := range imported {
			if len(list) > 0 && !covers(folder, pkg) {
				t.Errorf("%s imports %s%s, which only %s may", pkg, library, list[0], folder)
			}
		}
	}
}

// launch writes manifests without Kubernetes' modules, and none of them comes by way of another
// library. A module's go.mod names all modules that its packages are made of.
func TestLaunchHasNothingOfKubernetes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "launch", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "go.yaml.in/yaml/v3 ") {
		t.Error("launch/go.mod does not name the library that writes YAML: this test misread it")
	}
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "k8s.io/") || strings.HasPrefix(name, "sigs.k8s.io/") {
			t.Errorf("launch needs %s", name)
		}
	}
}

func TestPictureRefuses(t *testing.T) {
	for _, tc := range []struct {
		pkg, imports string
		ok           bool
	}{
		{"server", "worker", false},
		{"worker", "server", false},
		{"schedulernode", "server", false},
		{"server", "schedulernode", false},
		{"server", "kvstore", false},
		{"server", "internal/store/shardserver", true},
		{"internal/member/servernode", "internal/store/shardserver", true},
		{"internal/store/shardserver", "internal/member/cluster", false},
		{"internal/store/shardserver", "internal/store/shard", true},
		{"internal/store/shardserver", "kvstore", false},
		{"kvstore", "server", false},
		{"kvstore", "internal/store/shard", true},
		{"internal/store/shard", "kvstore", false},
		{"internal/store/shard", "internal/member/cluster", false},
		{"kvstore/kvstoretest", "kvstore", true},
		{"internal/store/transport", "internal/member/cluster", false},
		{"internal/store/wire", "internal/store/transport", false},
		{"nn", "kvstore", false},
		{"internal/compute/cpu", "internal/compute/op", true},
		{"internal/compute/cpu", "worker", false},
		{"optim", "nn", false},
		{"sampler", "kvstore", false},
		{"data", "internal/member/cluster", false},
		{"checkpoint", "worker", false},
		{"metrics", "kvstore", false},
		{"internal/compute/f32", "internal/store/wire", false},
		{"launch", "server", true},
		{"internal/hosts/ssh", "internal/hosts/agent", true},
		{"internal/hosts/ssh", "server", false},
		{"launch/internal/job", "internal/member/cluster", false},
		{"nn", "internal/store/wire", false},
		{"internal/compute/f32", "optim", false},
		{"examples/mnist", "worker", true},
		{"examples/mnist", "internal/member/control", false},
		{"examples/customtrainer", "kvstore", true},
		{"examples/customtrainer", "metrics", false},
		{"examples/mnist", "launch/internal/job", false},
		{"adapt", "kvstore", false},
		{"adapt", "optim", false},
		{"adapt", "internal/compute/f32", false},
		{"worker", "adapt", true},
		{"tune/schedule", "adapt", true},
		{"kvstore", "adapt", false},
		{"tune", "kvstore", false},
		{"tune", "worker", false},
		{"tune", "launch", false},
		{"tune/suggest", "tune", true},
		{"tune/show", "metrics", true},
		{"tune/show", "metrics/plot", true},
		{"tune", "metrics/plot", false},
		{"worker", "metrics", true},
		{"worker", "metrics/plot", false},
		{"newcomer", "internal/store/wire", false},
	} {
		bad := violations(map[string][]string{tc.pkg: {tc.imports}})
		if ok := len(bad) == 0; ok != tc.ok {
			t.Errorf("%s imports %s: allowed is %t, want %t (%q)", tc.pkg, tc.imports, ok, tc.ok, bad)
		}
	}
}
