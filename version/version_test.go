package version

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOfABuild(t *testing.T) {
	for _, c := range []struct {
		info    debug.BuildInfo
		version string
		date    string
	}{
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0"}}, "0.1.0", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.2.0-rc.1"}}, "0.2.0-rc.1", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.0+dirty"}}, "0.1.0+modified", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.0.0-20261124015301-ec1ba6b25b0e"}}, Number + "+ec1ba6b25b0e", "2026-11-24"},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.1.1-0.20261124015301-ec1ba6b25b0e+dirty"}}, Number + "+ec1ba6b25b0e.modified", "2026-11-24"},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, Number + "+unknown", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "ec1ba6b25b0e00112233445566778899aabbccdd"}, {Key: "vcs.time", Value: "2026-11-24T01:53:01Z"}, {Key: "vcs.modified", Value: "true"}}},
			Number + "+ec1ba6b25b0e.modified", "2026-11-24"},
		{debug.BuildInfo{}, Number + "+unknown", ""},

		// launch and the examples are modules of their own: their version is the
		// repository's, whatever they say of the root module.
		{debug.BuildInfo{Main: debug.Module{Path: module + "/launch", Version: "v0.1.0"}, Deps: []*debug.Module{{Path: module, Version: "v0.1.0"}}}, "0.1.0", ""},
		{debug.BuildInfo{Main: debug.Module{Path: module + "/examples", Version: "v0.0.0-20261124015301-ec1ba6b25b0e"}, Deps: []*debug.Module{{Path: module, Version: "(devel)"}}},
			Number + "+ec1ba6b25b0e", "2026-11-24"},
		{debug.BuildInfo{Main: debug.Module{Path: module + "x", Version: "v7.0.0"}}, Number + "+unknown", ""},

		// A program of others has Paragon as a dependency; its own version and commit are
		// not Paragon's.
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/train", Version: "v3.0.0"}, Deps: []*debug.Module{{Path: "other", Version: "v9.0.0"}, {Path: module, Version: "v0.1.0"}}}, "0.1.0", ""},
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/train"}, Deps: []*debug.Module{{Path: module, Version: "v0.1.0", Replace: &debug.Module{Path: "../paragon"}}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}}, Number + "+unknown", ""},
	} {
		if v, date := read(&c.info); v != c.version || date != c.date {
			t.Errorf("%+v: got %s of %q, want %s of %q", c.info, v, date, c.version, c.date)
		}
	}
}

// The newest release in CHANGELOG is the one that programs name.
func TestNumberIsThatOfTheChangelog(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	semantic := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	if !semantic.MatchString(Number) {
		t.Errorf("%q is no semantic version", Number)
	}
	newest := regexp.MustCompile(`(?m)^## (\d\S*)`).FindSubmatch(text)
	if newest != nil && string(newest[1]) != Number {
		t.Errorf("CHANGELOG's newest version is %s, and Number is %s", newest[1], Number)
	}
}

// A program with the flag prints its version, and ends.
func TestFlagPrintsTheVersion(t *testing.T) {
	const child = "PARAGON_TEST_VERSION_CHILD"
	if os.Getenv(child) != "" {
		f := flag.NewFlagSet("bin/toy", flag.ExitOnError)
		AddFlag(f)
		_ = f.Parse([]string{"--version", "--none"}) // ends the process
		os.Exit(3)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "toy version "+Number) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("got %q, %v, want one line with the name and the version", out, err)
	}
}
