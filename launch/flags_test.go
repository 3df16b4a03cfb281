package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/version"
)

func TestHelpShowsExamplesAndThePlacement(t *testing.T) {
	var out bytes.Buffer
	if code := launch([]string{"launch", "--help"}, &out, &out); code != 0 {
		t.Errorf("launch --help: exit code %d, want 0", code)
	}
	for _, want := range []string{"launch -n 2 -s 2 -- go run ./examples/cifar10", "i mod H", "--sync-dst-dir DIR", "Exit code"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("launch --help has no %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if code := launch([]string{"launch", "-n", "1"}, &out, &out); code != command.ExitUsage || !strings.Contains(out.String(), "See launch --help.") {
		t.Errorf("launch -n 1: exit code %d, %s", code, out.String())
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for _, flag := range []string{"--version", "-v"} {
		var out, errs bytes.Buffer
		if code := launch([]string{"launch", flag}, &out, &errs); code != 0 || out.String() != "launch version "+version.Text()+"\n" || errs.Len() > 0 {
			t.Errorf("%s: got code %d, %q and %q, want the version", flag, code, out.String(), errs.String())
		}
	}
}
