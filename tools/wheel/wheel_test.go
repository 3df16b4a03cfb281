package main

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/version"
)

// root is the repository.
var root = filepath.Join("..", "..")

// repository makes the part of a repository that a wheel is written from, with a package of two
// modules and what does not belong into a wheel.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE":                              "license",
		"python/README.md":                     "# paragon-train\n",
		"python/pyproject.toml":                string(read(t, filepath.Join(root, "python", "pyproject.toml"))),
		"python/paragon/__init__.py":           "",
		"python/paragon/_version.py":           fmt.Sprintf("__version__ = %q\n", version.Number),
		"python/paragon/py.typed":              "",
		"python/paragon/torch/__init__.py":     "import torch\n",
		"python/paragon/__pycache__/x.pyc":     "x",
		"python/paragon/__pycache__/y.py":      "y",
		"python/paragon/bin/launch":            "an old binary",
		"python/paragon/torch/notes.txt":       "notes",
		"python/tests/test_paragon.py":         "",
		"python/paragon.egg-info/top_level.py": "",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// small builds a static program for an architecture, in the place of launch.
func small(t *testing.T, arch string) string {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "launch")
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", file, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// written writes a wheel of a repository and opens it.
func written(t *testing.T, o options) (string, *zip.Reader) {
	t.Helper()
	o.out = t.TempDir()
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	wheels, err := filepath.Glob(filepath.Join(o.out, "*"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("there are the files %v, error %v; want one", wheels, err)
	}
	b := read(t, wheels[0])
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return wheels[0], z
}

func contents(t *testing.T, z *zip.Reader, name string) string {
	t.Helper()
	f, err := z.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWheelHasPackageBinaryAndMetadata(t *testing.T) {
	for arch, tag := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		file, z := written(t, options{root: repository(t), archs: []string{arch}, launch: small(t, arch)})
		want := "paragon_train-" + version.Number + "-py3-none-manylinux_2_17_" + tag + ".manylinux2014_" + tag + ".musllinux_1_1_" + tag + ".whl"
		if got := filepath.Base(file); got != want {
			t.Errorf("the wheel is %s, want %s", got, want)
		}
		info := "paragon_train-" + version.Number + ".dist-info/"
		var names []string
		for _, f := range z.File {
			names = append(names, f.Name)
			mode := os.FileMode(0o644)
			if f.Name == binaryName {
				mode = 0o755
			}
			if f.Mode() != mode {
				t.Errorf("%s has mode %s, want %s", f.Name, f.Mode(), mode)
			}
			if !f.Modified.Equal(earliest) {
				t.Errorf("%s is of %s, want %s", f.Name, f.Modified, earliest)
			}
		}
		if want := []string{"paragon/__init__.py", "paragon/_version.py", binaryName, "paragon/py.typed", "paragon/torch/__init__.py",
			info + "METADATA", info + "WHEEL", info + "entry_points.txt", info + "licenses/LICENSE", info + "RECORD"}; !slices.Equal(names, want) {
			t.Errorf("the wheel has\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
		}
		for name, lines := range map[string][]string{
			"METADATA":         {"Name: paragon-train", "Version: " + version.Number, "Requires-Python: >=3.9", "Requires-Dist: numpy>=1.20", "License-File: LICENSE", "# paragon-train"},
			"WHEEL":            {"Root-Is-Purelib: false", "Tag: py3-none-manylinux_2_17_" + tag, "Tag: py3-none-manylinux2014_" + tag, "Tag: py3-none-musllinux_1_1_" + tag},
			"entry_points.txt": {"[console_scripts]", "launch = paragon.__main__:launch"},
		} {
			text := contents(t, z, info+name)
			for _, l := range lines {
				if !slices.Contains(strings.Split(text, "\n"), l) {
					t.Errorf("%s has no line %q:\n%s", name, l, text)
				}
			}
		}
		checkRecord(t, z, info+"RECORD")
	}
}

// checkRecord compares RECORD with the files.
func checkRecord(t *testing.T, z *zip.Reader, name string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(contents(t, z, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range z.File {
		want := []string{f.Name, "", ""}
		if f.Name != name {
			text := contents(t, z, f.Name)
			row := record([]file{{name: f.Name, text: []byte(text)}}, "")
			want = strings.Split(strings.Split(string(row), "\n")[0], ",")
		}
		if i >= len(rows) || !slices.Equal(rows[i], want) {
			t.Errorf("RECORD's rows are %v, want row %d to be %v", rows, i, want)
		}
	}
}

func TestSameSourceGivesTheSameBytes(t *testing.T) {
	launch := small(t, "amd64")
	first, _ := written(t, options{root: repository(t), archs: []string{"amd64"}, launch: launch})
	second, _ := written(t, options{root: repository(t), archs: []string{"amd64"}, launch: launch})
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("two wheels of one source differ")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1600000000")
	_, z := written(t, options{root: repository(t), archs: []string{"amd64"}, launch: launch})
	if got, want := z.File[0].Modified, time.Unix(1600000000, 0); !got.Equal(want) {
		t.Errorf("with SOURCE_DATE_EPOCH files are of %s, want %s", got, want)
	}
}

func TestWhatIsNoStaticBinaryOfTheArchitectureIsRefused(t *testing.T) {
	o := options{root: repository(t), out: t.TempDir()}
	for _, c := range []struct {
		launch, want string
		archs        []string
	}{
		{small(t, "arm64"), "the binary is for EM_AARCH64, want EM_X86_64", []string{"amd64"}},
		{small(t, "amd64"), "one binary was given for 2 architectures", []string{"amd64", "arm64"}},
		{small(t, "amd64"), `-arch: got "riscv64", want amd64 or arm64`, []string{"riscv64"}},
	} {
		o.launch, o.archs = c.launch, c.archs
		if err := o.write(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.archs, err, c.want)
		}
	}
	own, ok := architectures[runtime.GOARCH]
	if runtime.GOOS != "linux" || !ok {
		t.Skipf("there is no dynamic program to be refused on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := static("/bin/sh", own.machine); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("/bin/sh: got error %v, want one that names CGO_ENABLED=0", err)
	}
}

func TestVersionsThatDifferAreRefused(t *testing.T) {
	folder := repository(t)
	if err := os.WriteFile(filepath.Join(folder, "python", "paragon", "_version.py"), []byte("__version__ = \"0.0.9\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := readProject(filepath.Join(folder, "python"))
	if err == nil || !strings.Contains(err.Error(), "_version.py says 0.0.9, and version/version.go "+version.Number) {
		t.Errorf("got error %v, want both versions", err)
	}
}

func TestProjectFileIsRead(t *testing.T) {
	got, err := parseTOML("# x\n\n[a]\nb = \"c d\"\ne = [\"f\", \"g\"]\nh = []\n\n[a.b]\ni = [\n\t\"j\",\n\t\"k, l\",\n]\n")
	if want := "map[a.b:[c d] a.b.i:[j k, l] a.e:[f g]]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, error %v; want %s", got, err, want)
	}
	for _, text := range []string{"a = 1", "a = \"b", "a = [1]", "a", "a = [\n\"b\"\nc = \"d\"\n]"} {
		if got, err := parseTOML(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: got %v, error %v; want an error with the line", text, got, err)
		}
	}
}
