// Package installed lets tests use NVIDIA's real libraries where a machine has them: what they
// answer without a GPU shows whether the bindings ask them right.
//
//	func TestErrorsHaveTheirNames(t *testing.T) {
//		installed.Run(t, func(libs map[dl.Name]*dl.Library) {
//			...
//		}, dl.CUDA)
//	}
//
// Libraries are found as programs find them (package dl), so LD_LIBRARY_PATH or PARAGON_CUDA_PATH
// and the like name them. Where one is missing the test is skipped, always: no machine has to have
// them.
package installed

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// child is set for a process that runs one test.
const child = "PARAGON_TEST_INSTALLED"

// limit bounds a test: a library that waits for ever is found so.
const limit = 4 * time.Minute

// Run runs f with the libraries, in a process of its own: stand-ins of the same names may be open
// in this one. What f says of the test holds for it, and its log is the test's. It must be called
// by the test itself, not in a subtest.
func Run(t *testing.T, f func(libs map[dl.Name]*dl.Library), names ...dl.Name) {
	t.Helper()
	if os.Getenv(child) == t.Name() {
		var search dl.Search
		libs := make(map[dl.Name]*dl.Library)
		for _, name := range names {
			lib, err := search.Open(name)
			if err != nil {
				t.Skip(err)
			}
			t.Logf("%s %v", lib.File, lib.Version())
			libs[name] = lib
		}
		f(libs)
		return
	}
	if err := dl.Supported(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+limit.String())
	cmd.Env = append(os.Environ(), child+"="+t.Name())
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch {
	case ctx.Err() != nil:
		t.Fatalf("no end after %v\n%s", limit, text)
	case errors.As(err, new(*exec.ExitError)):
		t.Fatalf("%v\n%s", err, text)
	case err != nil:
		t.Fatal(err)
	case bytes.Contains(out, []byte("--- SKIP: "+t.Name())):
		t.Skip(text)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatalf("the test was not run\n%s", text)
	}
	t.Log(text)
}
