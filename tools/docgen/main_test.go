package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestPagesAreFresh(t *testing.T) {
	if err := (generator{root: root}).pages(true); err != nil {
		t.Error(err)
	}
}

// make testdocs compares what the programs print, too: that takes all of them, with what tests
// leave out of launch.
func TestCommandsAreFresh(t *testing.T) {
	if os.Getenv("PARAGON_TEST_DOCS") == "" {
		t.Skip("it builds all programs: make testdocs (PARAGON_TEST_DOCS=1)")
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-tags=nobuckets", "-o", bin+"/", "./launch", "./examples/...", "./bench/gpucheck")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := (generator{root: root, bin: bin}).pages(true); err != nil {
		t.Error(err)
	}
}

func TestHelpIsRead(t *testing.T) {
	c, err := parseHelp(`NAME:
   launch ctl - inspect a running job

USAGE:
   launch ctl [global options] command

DESCRIPTION:
   Jobs are found.

     launch ctl status

COMMANDS:
   status    show it
   add, a    add a host

GLOBAL OPTIONS:
   --join ADDR               ask ADDR (host:port) (default: none) [$PARAGON_A, $PARAGON_B]
   --env NAME [ --env NAME ]  set NAME | VALUE <x>
   --help, -h                show help
`)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	c.name = "launch ctl"
	c.write(&b, 2)
	want := "\n### launch ctl\n\nInspect a running job.\n\n```\nlaunch ctl [global options] command\n\nJobs are found.\n\n  launch ctl status\n```\n\n" +
		"| flag | meaning | default | environment |\n| --- | --- | --- | --- |\n| `--join ADDR` | ask ADDR (host:port) | none | `PARAGON_A`, `PARAGON_B` |\n" +
		"| `--env NAME [ --env NAME ]` | set NAME \\| VALUE &lt;x> |  |  |\n| `--help, -h` | show help |  |  |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if strings.Join(c.commands, " ") != "status add" {
		t.Errorf("got commands %q", c.commands)
	}

	c, err = parseHelp("Usage of bin/toy:\n  -dir string\n    \tfolder of the search (default \"runs\")\n  -n\tshort\n  -version\n    \tprint the version\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.flags) != 3 || c.flags[0] != (option{"--dir string", "folder of the search", `"runs"`, ""}) || c.flags[1] != (option{"--n", "short", "", ""}) {
		t.Errorf("got %+v", c.flags)
	}
	for _, bad := range []string{"launch: no such command\n", "Usage of x:\nwhat\n", "NAME:\n   a - b\n\nOPTIONS:\n   what\n"} {
		if _, err := parseHelp(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestTypesAreRead(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x.go"), []byte(`package x
type A struct {
	// B is one.
	B *int `+"`json:\"b,omitempty\"`"+` // of two
	C []string
	d bool
	E map[string]Code `+"`json:\"-\"`"+`
	F map[string]Code
	G []byte
	Code // of it
}
type Code string
const (
	One Code = "one" // the first
	Two Code = "two"
	Three = "three"
)
`), 0o644); err != nil {
		t.Fatal(err)
	}
	g := generator{root: folder}
	for _, c := range []struct{ words, want string }{
		{"fields . A", "| field | JSON | meaning |\n| --- | --- | --- |\n| `b` | integer, may be missing | `b` is one. of two |\n| `C` | array of string |  |\n" +
			"| `F` | object of `Code` |  |\n| `G` | string (base64) |  |\n|  | the fields of `Code` | of it |\n"},
		{"constants . Code", "| value | meaning |\n| --- | --- |\n| `one` | the first |\n| `two` |  |\n"},
	} {
		if got, err := g.region(strings.Fields(c.words)); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.words, got, err, c.want)
		}
	}
	for _, words := range []string{"fields . None", "constants . None", "environment none", "else", "commands"} {
		if _, err := g.region(strings.Fields(words)); err == nil {
			t.Errorf("%s is made", words)
		}
	}
	if _, err := g.page([]byte("<!-- docgen: environment user -->\n")); err == nil {
		t.Error("a region without an end is taken")
	}
}
