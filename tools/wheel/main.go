// Command wheel writes the Python package paragon-train as a wheel, which pip installs:
//
//	go run ./tools/wheel -out bin/wheels -arch amd64,arm64
//
// A wheel is a zip of python/paragon, the launch binary and the package's metadata, for one
// architecture. The binary is static, so one wheel serves glibc and musl, and any Python from 3.9
// on. The same source, Go and SOURCE_DATE_EPOCH (1980-01-01 without it) give the same bytes. No
// Python is needed. Metadata comes from python/pyproject.toml, the version from package version.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func main() {
	var o options
	var arch string
	flag.StringVar(&o.root, "root", ".", "the repository")
	flag.StringVar(&o.out, "out", "bin/wheels", "folder of the wheels")
	flag.StringVar(&arch, "arch", runtime.GOARCH, "architectures, with commas: amd64, arm64")
	flag.StringVar(&o.launch, "launch", "", "a static launch binary that was built before (default: it is built)")
	flag.Parse()
	o.archs = strings.Split(arch, ",")
	if err := o.write(); err != nil {
		fmt.Fprintln(os.Stderr, "wheel:", err)
		os.Exit(1)
	}
}

// An options value has what the command line says.
type options struct {
	root, out, launch string
	archs             []string
}

// write writes a wheel of each architecture, and prints its name and size.
func (o options) write() error {
	if o.launch != "" && len(o.archs) != 1 {
		return fmt.Errorf("-launch: one binary was given for %d architectures; want one with -arch", len(o.archs))
	}
	when, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, arch := range o.archs {
		p, err := readProject(filepath.Join(o.root, "python"))
		if err != nil {
			return err
		}
		binary, err := o.binary(arch)
		if err != nil {
			return err
		}
		name, size, err := p.wheel(o.out, arch, binary, when)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %.1f MB\n", filepath.Join(o.out, name), float64(size)/1e6)
	}
	return nil
}

// earliest is the first time that a zip can hold, and the time of files without SOURCE_DATE_EPOCH.
var earliest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// sourceDate is the time of all files of the wheel.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return earliest, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: got %q, want seconds since 1970", epoch)
	}
	if when := time.Unix(seconds, 0).UTC(); when.After(earliest) {
		return when, nil
	}
	return earliest, nil
}
