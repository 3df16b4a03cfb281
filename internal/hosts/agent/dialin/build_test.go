package dialin

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestBuildIsThatOfTheLinker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the note is that of ELF programs")
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if id := string(goBuildID(f)); strings.Count(id, "/") != 3 {
		t.Errorf("build ID %q, want four parts as `go tool buildid` prints them", id)
	}
	b, err := Build()
	if err != nil || len(b) != 32 {
		t.Errorf("Build: %q, %v, want 32 digits", b, err)
	}
}
