package ctl

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/remotecontrol"
)

// What launch ctl and launch top ask for is what a launcher allows from other machines.
func TestEveryRequestOfCtlIsAllowedFromOtherMachines(t *testing.T) {
	read := func(pattern string) (text string) {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %q, %v", pattern, paths, err)
		}
		for _, p := range paths {
			if b, err := os.ReadFile(p); err != nil {
				t.Fatal(err)
			} else if !strings.HasSuffix(p, "_test.go") {
				text += string(b)
			}
		}
		return text
	}
	values := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\t(Op\w+) += "([a-z-]+)"`).FindAllStringSubmatch(read("../../../../internal/member/control/*.go"), -1) {
		values[m[1]] = m[2]
	}
	asked := regexp.MustCompile(`control\.(Op\w+)`).FindAllStringSubmatch(read("*.go")+read("../../top/*.go"), -1)
	if len(asked) < 13 || len(values) < 17 {
		t.Fatalf("found %d requests and %d operations", len(asked), len(values))
	}
	for _, m := range asked {
		if !remotecontrol.Allows(values[m[1]]) {
			t.Errorf("control.%s, %q, is not allowed", m[1], values[m[1]])
		}
	}
}
