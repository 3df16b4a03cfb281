// Package version tells which version of Paragon a program was built with.
//
//	launch --version
//	launch version 0.1.0+ec1ba6b25b0e (commit of 2026-11-24, go1.26.0, linux/amd64)
//
// Versions are semantic ones (semver.org). A program built from a release, as by `go install
// github.com/paragon-train/paragon/launch@v0.1.0`, has the release's number alone. Any other one
// has the commit behind a plus sign, and ".modified" if the source was changed since. Where Go does
// not know the commit (go run, go test, a source tree without its history) "unknown" stands for it.
package version

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Number is the version of this source: of the newest release, or of the one that it will become.
// CHANGELOG says what is in it.
const Number = "0.1.0"

const module = "github.com/paragon-train/paragon"

// String is the version of Paragon in this program, such as "0.1.0" or "0.1.0+ec1ba6b25b0e".
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number + "+unknown"
	}
	v, _ := read(info)
	return v
}

// Text is the version of Paragon in this program with what else is known of the build, for people.
func Text() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	v, date := read(info)
	if date != "" {
		date = "commit of " + date + ", "
	}
	return fmt.Sprintf("%s (%s%s, %s/%s)", v, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// AddFlag gives a program the flag --version, which prints the program's name and version to the
// standard output and ends the process with code 0.
func AddFlag(f *flag.FlagSet) {
	f.BoolFunc("version", "print the version and exit", func(string) error {
		fmt.Printf("%s version %s\n", filepath.Base(f.Name()), Text())
		os.Exit(0)
		return nil
	})
}

// pseudo is the end of the version that Go gives to a commit that is no release: the commit's time
// in UTC and its hash.
var pseudo = regexp.MustCompile(`[-.](\d{4})(\d\d)(\d\d)\d{6}-([0-9a-f]{12})(?:\+(dirty|incompatible))?$`)

// read finds the version, and the date of the commit if it is known and no release.
func read(info *debug.BuildInfo) (version, date string) {
	m := &info.Main
	if m.Path != module && !strings.HasPrefix(m.Path, module+"/") { // the modules of one repository have one version
		m = &debug.Module{}
		for _, d := range info.Deps { // of a program of others
			if d.Path == module {
				m = d
			}
		}
		if m.Replace != nil {
			m = m.Replace
		}
	}
	if p := pseudo.FindStringSubmatch(m.Version); p != nil {
		version = Number + "+" + p[4]
		if p[5] == "dirty" {
			version += ".modified"
		}
		return version, p[1] + "-" + p[2] + "-" + p[3]
	}
	if number, ok := strings.CutPrefix(m.Version, "v"); ok {
		number, changed := strings.CutSuffix(number, "+dirty")
		if changed {
			number += "+modified"
		}
		return number, ""
	}
	if m == &info.Main { // built where Go gives no version
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if commit := settings["vcs.revision"]; len(commit) >= 12 {
			version = Number + "+" + commit[:12]
			if settings["vcs.modified"] == "true" {
				version += ".modified"
			}
			date, _, _ = strings.Cut(settings["vcs.time"], "T")
			return version, date
		}
	}
	return Number + "+unknown", ""
}
