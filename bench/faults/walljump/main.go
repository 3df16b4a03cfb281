// Command walljump writes what makes the wall clock of a Go program jump, and leaves its monotonic
// clock alone: an overlay for go build with a package time of which the running toolchain's Now
// adds a number of seconds. A process has no wall clock of its own, and Go does not ask the C
// library for the time.
//
//	go run ./bench/faults/walljump DIR
//	go build -overlay DIR/overlay.json -tags walljump ./bench/faults
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	before = "\tsec, nsec, mono := runtimeNow()\n"
	after  = before + "\tsec += wallJump.Load()\n"

	jump = `package time

import "sync/atomic"

var wallJump atomic.Int64 // seconds

// JumpWall makes the wall clock of this process jump.
func JumpWall(d Duration) { wallJump.Add(int64(d / Second)) }
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "walljump: want one argument, the folder to write to")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "walljump:", err)
		os.Exit(1)
	}
}

// timeSource is the folder of package time in the toolchain.
func timeSource() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src", "time"), nil
}

func write(dir string) error {
	src, err := timeSource()
	if err != nil {
		return err
	}
	now, err := os.ReadFile(filepath.Join(src, "time.go"))
	if err != nil {
		return err
	}
	changed, err := change(string(now))
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// No name ends in .go: DIR may be in a module, and must not become a package of it.
	const timeFile, jumpFile = "time.go.overlay", "jump.go.overlay"
	files := map[string]string{timeFile: changed, jumpFile: jump}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(src, "time.go"):      filepath.Join(dir, timeFile),
		filepath.Join(src, "jump_wall.go"): filepath.Join(dir, jumpFile),
	}})
	if err != nil {
		return err
	}
	files["overlay.json"] = string(overlay)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// change makes Now of package time one whose wall clock may jump.
func change(source string) (string, error) {
	head, body, found := strings.Cut(source, "\nfunc Now() Time {\n")
	if !found || !strings.HasPrefix(body, before) {
		return "", fmt.Errorf("time.Now of this Go is another one than is known here: want %q as its first line", strings.TrimSpace(before))
	}
	return head + "\nfunc Now() Time {\n" + after + strings.TrimPrefix(body, before), nil
}
