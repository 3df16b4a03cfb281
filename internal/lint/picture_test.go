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

// A row says what the packages of a folder may import of this module, besides other packages of
// that same folder. A name stands for the folder and all below it; with a "!" before it, for the
// one package alone.
type row struct {
	folder string
	may    []string
}

// publicFolders are what users' programs are written against.
var publicFolders = []string{"tune", "worker", "server", "schedulernode", "adapt", "kvstore", "nn", "optim", "sampler", "data", "checkpoint", "metrics", "version"}

// anything is for commands: nobody imports them.
var anything = append([]string{"internal"}, publicFolders...)

// machinery is what everything else may import.
var machinery = imports.Machinery()

// and are machinery and more.
func and(more ...string) []string { return append(more, machinery...) }

// picture has the rows from the top down. The longest folder that fits counts.
var picture = append([]row{
	{"!launch", append([]string{"launch"}, anything...)},
	{"launch/internal", and("internal/hosts/lines", "internal/hosts/hosts", "internal/hosts/gpus", "internal/hosts/process", "internal/hosts/agent", "internal/hosts/ssh", "internal/member/record", "internal/member/control", "internal/observe/page")}, // they know nothing of the roles
	{"launch/internal/datapack", and("data", "launch/internal/inorder")},
	{"launch/internal/datacheck", and("data", "launch/internal/inorder")},
	{"launch/internal/datashow", and("data", "launch/internal/inorder")},
	{"examples", publicFolders},
	{"examples/customtrainer", []string{"kvstore", "optim", "version"}}, // the store alone
	{"bench", anything},
	{"docs", []string{"internal/testing"}},

	{"tune", and("adapt", "checkpoint", "!metrics", "sampler", "internal/hosts/hosts", "internal/hosts/gpus", "internal/hosts/process", "internal/hosts/agent", "internal/hosts/ssh", "internal/member/control", "internal/member/jobcontrol", "internal/member/cluster", "internal/hosts/lines", "internal/observe/page", "internal/member/searchcontrol")},
	{"tune/show", and("tune", "metrics")},

	// The roles meet in internal/store/wire alone.
	{"worker", and("adapt", "kvstore", "internal/member/control", "internal/member/cluster", "internal/member/rollcall", "nn", "optim", "sampler", "data", "!checkpoint", "!metrics")},
	{"server", and("internal/store/shardserver", "internal/member/cluster")},
	{"schedulernode", and("internal/member/scheduler", "internal/member/cluster")},

	{"adapt", nil},

	{"kvstore", and("internal/store/hostsum", "internal/store/shardserver", "internal/store/shard", "internal/member/rollcall", "internal/member/cluster", "internal/store/transport", "internal/store/wire", "optim", "sampler", "!checkpoint", "!metrics")},
	{"internal/store/shardserver", and("internal/store/shard", "internal/member/cluster", "internal/store/transport", "internal/store/wire", "optim")},
	{"internal/member/scheduler", and("adapt", "internal/member/control", "internal/store/shard", "internal/member/cluster", "internal/store/transport", "internal/store/wire", "optim", "!checkpoint", "!metrics")},
	{"internal/store/hostsum", and("internal/store/shard", "internal/store/transport", "internal/store/wire")},
	{"internal/store/shard", and("internal/store/wire", "optim")},
	{"internal/member/rollcall", nil},
	{"internal/member/cluster", and("internal/store/transport", "internal/store/wire")},
	{"internal/store/transport", and("internal/store/wire")},
	{"internal/store/wire", machinery},
	{"internal/member/control", and("internal/store/wire")},

	{"nn", and("internal/compute")},
	{"internal/compute", machinery},
	{"optim", machinery},
	{"sampler", machinery},
	{"data", and("sampler", "internal/files/objects")},
	{"internal/files/objects", machinery},
	{"checkpoint/bucket", and("checkpoint", "internal/files/objects")},
	{"checkpoint", machinery},
	{"metrics", machinery},
	{"version", nil},

	{"internal/hosts/lines", and("internal/member/control")},
	{"internal/observe/page", and("internal/member/control")},

	// Start methods.
	{"internal/hosts/gpustat", and("internal/compute/cuda/dl")},
	{"internal/hosts/ssh", and("internal/hosts/agent", "internal/hosts/hosts")},
	{"internal/hosts/agent/dialin", and("internal/hosts/agent", "internal/hosts/hosts")},
	{"internal/hosts/agent/resume", machinery},
	{"!internal/hosts/agent", and("internal/hosts/gpus", "internal/hosts/process")},
	{"internal/hosts/process", and("internal/hosts/gpus")},
	{"internal/hosts/gpus", machinery},
	{"internal/hosts/hosts", nil},
	{"internal/member/record", machinery},
	{"internal/member/searchcontrol", machinery},
	{"internal/member/jobcontrol", and("internal/member/control", "internal/member/record", "internal/member/cluster", "internal/store/transport")},

	{"internal/testing", anything}, // helpers of tests stand above what they help to test
	{"internal/lint", nil},
	{"tools", anything},
}, rowsOf(machinery)...)

func rowsOf(folders []string) (rows []row) {
	for _, f := range folders {
		rows = append(rows, row{f, machinery})
	}
	return rows
}

// covers reports whether the name of a row or of an import stands for pkg.
func covers(name, pkg string) bool {
	if one, ok := strings.CutPrefix(name, "!"); ok {
		return pkg == one
	}
	return pkg == name || strings.HasPrefix(pkg, name+"/")
}

func rowOf(pkg string) (row, bool) {
	var best row
	found := false
	for _, r := range picture {
		// A "!" row is as long as its package, and longer than the folder's of the same
		// name.
		if covers(r.folder, pkg) && (!found || len(r.folder) > len(best.folder)) {
			best, found = r, true
		}
	}
	return best, found
}

// violations are the imports that the picture does not have; imports has the packages of this
// module that each one imports.
func violations(imports map[string][]string) []string {
	var bad []string
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		r, ok := rowOf(pkg)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s has no row in the picture: add one", pkg))
			continue
		}
		for _, imported := range imports[pkg] {
			allowed := covers(strings.TrimPrefix(r.folder, "!"), imported) && !strings.HasPrefix(r.folder, "!")
			for _, name := range r.may {
				allowed = allowed || covers(name, imported)
			}
			if !allowed {
				bad = append(bad, fmt.Sprintf("%s imports %s, but may import only: %s", pkg, imported, strings.Join(r.may, " ")))
			}
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
