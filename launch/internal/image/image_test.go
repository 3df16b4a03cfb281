package image

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeProgram writes an ELF file that has nothing but what is asked for, and 1000 bytes behind its
// segments, as symbols are.
func writeProgram(t *testing.T, machine uint16, interpreter string) string {
	t.Helper()
	const headers, segment = 64, 56
	content := strings.Repeat("x", 200) + interpreter + "\x00"
	b := make([]byte, headers+2*segment, 2000)
	copy(b, "\x7fELF\x02\x01\x01")
	put := binary.LittleEndian
	put.PutUint16(b[16:], 2) // ET_EXEC
	put.PutUint16(b[18:], machine)
	put.PutUint32(b[20:], 1)
	put.PutUint64(b[32:], headers)
	put.PutUint16(b[52:], headers)
	put.PutUint16(b[54:], segment)
	put.PutUint16(b[56:], 2)
	program := func(at int, kind uint32, offset, size int) {
		put.PutUint32(b[at:], kind)
		put.PutUint64(b[at+8:], uint64(offset))
		put.PutUint64(b[at+32:], uint64(size))
	}
	program(headers, 1, 0, len(b)+len(content)) // PT_LOAD
	if interpreter != "" {
		program(headers+segment, 3, len(b)+200, len(interpreter)+1) // PT_INTERP
	}
	b = append(append(b, content...), strings.Repeat("s", 1000)...)
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	amd64 = 62
	arm64 = 183
)

func read(t *testing.T, name string) Program {
	t.Helper()
	p, err := ReadProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProgramsAreKnown(t *testing.T) {
	p := read(t, writeProgram(t, arm64, ""))
	if p.Platform != (Platform{"linux", "arm64"}) || p.Static() != nil {
		t.Errorf("got platform %v, %v, want static and linux/arm64", p.Platform, p.Static())
	}
	p = read(t, writeProgram(t, amd64, "/lib64/ld-linux-x86-64.so.2"))
	if err := p.Static(); !errors.Is(err, ErrDynamic) || !strings.Contains(err.Error(), "it needs /lib64/ld-linux-x86-64.so.2") {
		t.Errorf("got %v, want ErrDynamic with the interpreter", err)
	}
}

func TestWhatIsNoProgramIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole, err := os.ReadFile(writeProgram(t, amd64, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ file, want string }{
		{filepath.Join(dir, "none"), "no such file"},
		{dir, "is not a file"},
		{file("empty", ""), "is not a Linux program (ELF)"},
		{file("text", "hello"), "is not a Linux program (ELF)"},
		{file("script", "#!/bin/bash -e\ntrue"), "is a script for /bin/bash -e"},
		{file("cut", string(whole[:300])), "is cut off"},
		{file("header", string(whole[:70])), "is not a Linux program (ELF)"},
		{writeProgram(t, 8, ""), "EM_MIPS"},
	} {
		if _, err := ReadProgram(tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.file, err, tc.want)
		}
	}
}

// A program of Go without its symbols still runs, and still says what it was built from.
func TestAProgramRunsWithoutItsSymbols(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"it runs\") }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(dir, "whole")
	build := exec.Command("go", "build", "-gcflags=all=-dwarf=false", "-o", whole, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := read(t, whole)
	r, size, err := p.openStripped()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != size {
		t.Fatalf("got %d bytes and %v, want %d", len(b), err, size)
	}
	info, err := os.Stat(whole)
	if err != nil || size >= info.Size() {
		t.Fatalf("without symbols it has %d bytes of %d, %v", size, info.Size(), err)
	}
	stripped := filepath.Join(dir, "stripped")
	if err := os.WriteFile(stripped, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(stripped).CombinedOutput(); err != nil || string(out) != "it runs\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := exec.Command("go", "version", "-m", stripped).CombinedOutput(); err != nil || !strings.Contains(string(out), "command-line-arguments") {
		t.Errorf("go version -m: %v: %s", err, out)
	}
}

func TestFilesAreAdded(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("conf/b.yaml", 0o600)
	write("conf/a/run.sh", 0o700)
	if err := os.Symlink("b.yaml", filepath.Join(dir, "conf", "c")); err != nil {
		t.Fatal(err)
	}
	files, err := Add(filepath.Join(dir, "conf") + ":/etc/job/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %o %s", f.Path, f.Mode, f.Link))
	}
	want := []string{"/etc/job 755 ", "/etc/job/a 755 ", "/etc/job/a/run.sh 755 ", "/etc/job/b.yaml 644 ", "/etc/job/c 777 b.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for spec, want := range map[string]string{
		"conf":                       "write SOURCE:DESTINATION",
		":/etc":                      "write SOURCE:DESTINATION",
		dir + ":etc":                 "not an absolute path",
		dir + ":/":                   "not an absolute path",
		dir + ":/etc/../x":           "write /x",
		dir + ":/etc//x":             "write /etc/x",
		filepath.Join(dir, "no:/no"): "no such file",
		"/dev/null:/dev/null":        "an image cannot hold it",
	} {
		if _, err := Add(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", spec, err, want)
		}
	}
}

// config is that of a small image.
func config(t *testing.T) Config {
	p := read(t, writeProgram(t, amd64, ""))
	return Config{
		Platform: Platform{"linux", "amd64"}, Folder: t.TempDir(), WorkingDir: "/tmp", Entrypoint: []string{"/usr/local/bin/launch"}, Env: []string{"HOME=/tmp"},
		Groups: []Group{
			{Name: "system", Files: System([]byte("certificates"))},
			{Name: "files"},
			{Name: "trainer", Files: []File{{Path: "/usr/local/bin/trainer", Mode: 0o755, Program: &p}}},
		},
	}
}

func build(t *testing.T, cfg Config) *Image {
	t.Helper()
	img, err := Build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func tag(t *testing.T, s string) Tag {
	t.Helper()
	tag, err := ParseTag(s)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// entries are the entries of a layer, one a line.
func entries(t *testing.T, r io.Reader) (all []string) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s: owner %d:%d, time %v, want 0:0 and none", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		all = append(all, fmt.Sprintf("%c %o %d %s", h.Typeflag, h.Mode, h.Size, h.Name))
	}
}

func TestAnImageHoldsItsFiles(t *testing.T) {
	cfg := config(t)
	img := build(t, cfg)
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := img.WriteArchive(file, tag(t, "example.com/team/trainer:v1")); err != nil {
		t.Fatal(err)
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil || len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"example.com/team/trainer:v1"}) || manifest[0].Config != img.ID {
		t.Fatalf("manifest %+v, %v", manifest, err)
	}
	back, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := back.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entries(t, r)...)
		r.Close()
	}
	p := cfg.Groups[2].Files[0].Program
	want := []string{
		"5 755 0 etc/", "0 644 27 etc/group", "0 644 17 etc/nsswitch.conf", "0 644 85 etc/passwd", "5 755 0 etc/ssl/", "5 755 0 etc/ssl/certs/",
		"0 644 12 etc/ssl/certs/ca-certificates.crt", "5 1777 0 tmp/",
		"5 755 0 usr/", "5 755 0 usr/local/", "5 755 0 usr/local/bin/", fmt.Sprintf("0 755 %d usr/local/bin/trainer", p.Loaded),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	c, err := back.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, cfg.Entrypoint) || c.Config.WorkingDir != "/tmp" || c.OS+"/"+c.Architecture != "linux/amd64" || !slices.Equal(c.Config.Env, cfg.Env) {
		t.Errorf("configuration %+v", c.Config)
	}
	if n := img.Packed(); n <= 0 || len(img.Layers) != 2 || img.Unpacked() != 27+17+85+12+p.Loaded {
		t.Errorf("sizes: packed %d, unpacked %d, layers %+v", n, img.Unpacked(), img.Layers)
	}
	if leftovers, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(leftovers) > 0 {
		t.Errorf("drafts are left: %q", leftovers)
	}
}

// The digest depends on the content alone: not on the order of the files, on times, or on the
// umask.
func TestTheSameFilesMakeTheSameImage(t *testing.T) {
	cfg := config(t)
	first := build(t, cfg)
	slices.Reverse(cfg.Groups[0].Files)
	if again := build(t, cfg); again.Digest != first.Digest || again.ID != first.ID {
		t.Errorf("got %s, then %s", first.Digest, again.Digest)
	}
	cfg.Groups[0].Files[0].Content = []byte("other")
	if other := build(t, cfg); other.Digest == first.Digest {
		t.Errorf("another content has the digest %s, too", other.Digest)
	}
}

func TestABaseIsBelow(t *testing.T) {
	cfg := config(t)
	base := filepath.Join(t.TempDir(), "base.tar")
	first := build(t, cfg)
	if err := first.WriteArchive(base, tag(t, "base")); err != nil {
		t.Fatal(err)
	}
	cfg.Base, cfg.Groups, cfg.Env = base, []Group{{Name: "more", Files: []File{{Path: "/more", Mode: 0o644, Content: []byte("x")}}}}, []string{"HOME=/root", "A=b"}
	img := build(t, cfg)
	if len(img.Layers) != 3 || img.Layers[0].Name != "base" || img.Layers[2].Name != "more" {
		t.Errorf("layers %+v", img.Layers)
	}
	c, err := img.img.ConfigFile()
	if err != nil || !slices.Equal(c.Config.Env, []string{"HOME=/root", "A=b"}) {
		t.Errorf("environment %q, %v", c.Config.Env, err)
	}
	cfg.Platform.Architecture = "arm64"
	if _, err := Build(cfg); err == nil || !strings.Contains(err.Error(), "is for linux/amd64, and the image is for linux/arm64") {
		t.Errorf("another platform: %v", err)
	}
	for _, tc := range []struct{ content, want string }{{"", "want an archive of one image"}, {"hello", "want an archive of one image"}} {
		if err := os.WriteFile(base, []byte(tc.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Build(cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("base %q: %v, want %q", tc.content, err, tc.want)
		}
	}
	cfg.Base = filepath.Join(t.TempDir(), "none.tar")
	if _, err := Build(cfg); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no base: %v", err)
	}
}

func TestFilesThatCollideAreRefused(t *testing.T) {
	for _, tc := range []struct {
		groups []Group
		want   string
	}{
		{[]Group{{"one", []File{{Path: "/a", Content: []byte{1}}}}, {"two", []File{{Path: "/a", Content: []byte{1}}}}}, "/a is in the image twice: one, two"},
		{[]Group{{"one", []File{{Path: "/a", Content: []byte{1}}, {Path: "/a/b", Content: []byte{1}}}}}, "/a is in the image as a file, and /a/b would lie below it"},
		{[]Group{{"one", []File{{Path: "/a", Source: "/does/not/exist"}}}}, "add /a: open /does/not/exist"},
	} {
		cfg := config(t)
		cfg.Groups = tc.groups
		if _, err := Build(cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

func TestALayoutHoldsSeveralPlatforms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	cfg := config(t)
	var last string
	write := func(architecture, version string) string {
		t.Helper()
		cfg.Platform.Architecture = architecture
		digest, err := build(t, cfg).WriteLayout(dir, tag(t, "trainer:"+version))
		if err != nil {
			t.Fatal(err)
		}
		last = digest
		return digest
	}
	write("arm64", "v1")
	one := write("amd64", "v1")
	if again := write("amd64", "v1"); again != one {
		t.Errorf("the same image again: %s, then %s", one, again)
	}
	write("amd64", "v2")
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range manifest.Manifests {
		inner, err := index.ImageIndex(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		platforms, err := inner.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range platforms.Manifests {
			got = append(got, d.Annotations[refName]+" "+p.Platform.String())
		}
	}
	if want := []string{"v1 linux/amd64", "v1 linux/arm64", "v2 linux/amd64"}; !slices.Equal(got, want) || last == one {
		t.Errorf("got %q, want %q", got, want)
	}

	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := build(t, cfg).WriteLayout(other, tag(t, "trainer")); err == nil || !strings.Contains(err.Error(), "is not an OCI image layout") {
		t.Errorf("a folder with other files: %v", err)
	}
}

func TestTags(t *testing.T) {
	for s, want := range map[string]string{
		"trainer": "trainer:latest", "trainer:latest": "trainer:latest", "localhost:5000/trainer": "localhost:5000/trainer:latest", "a/b:v1": "a/b:v1",
	} {
		if got := tag(t, s).String(); got != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
	}
	for _, s := range []string{"", "Trainer", "a b", "a:b:c", "trainer@sha256:" + strings.Repeat("0", 64), "a:" + strings.Repeat("x", 129)} {
		if got, err := ParseTag(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
	for _, s := range []string{"", "linux", "linux/386", "windows/amd64", "amd64"} {
		if got, err := ParsePlatform(s); err == nil {
			t.Errorf("platform %q: got %v, want an error", s, got)
		}
	}
}

// What fails half way leaves the old file.
func TestAnArchiveAppearsWhole(t *testing.T) {
	cfg := config(t)
	img := build(t, cfg)
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	layers, _ := filepath.Glob(filepath.Join(cfg.Folder, "*"))
	for _, l := range layers {
		if err := os.Remove(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := img.WriteArchive(file, tag(t, "trainer")); err == nil {
		t.Error("an image without its layers was written")
	}
	if b, _ := os.ReadFile(file); string(b) != "old" {
		t.Errorf("the file has %d bytes of something else", len(b))
	}
	if drafts, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(drafts) > 0 {
		t.Errorf("drafts are left: %q", drafts)
	}
	if err := img.WriteArchive(filepath.Join(t.TempDir(), "none", "x.tar"), tag(t, "trainer")); err == nil {
		t.Error("a folder that is not there: want an error")
	}
}
