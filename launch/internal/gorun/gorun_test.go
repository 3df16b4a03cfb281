package gorun

import (
	"strings"
	"testing"
)

func TestSplitTakesGoRunApart(t *testing.T) {
	for _, tc := range []struct {
		args             string
		flags, pkg, rest string
		ok               bool
	}{
		{"go run ./p -a b", "", "./p", "-a b", true},
		{"go run -race -tags x ./p", "-race -tags x", "./p", "", true},
		{"go run --tags=x a.go b.go c.txt", "--tags=x", "a.go b.go", "c.txt", true},
		{"/usr/bin/go run .", "", ".", "", true},
		{"go run -exec x ./p", "", "", "", false},
		{"go run -tags", "", "", "", false},
		{"go run -race", "", "", "", false},
		{"go test ./p", "", "", "", false},
		{"run run ./p", "", "", "", false},
		{"go", "", "", "", false},
	} {
		flags, pkg, rest, ok := Split(strings.Fields(tc.args))
		got := strings.Join(flags, " ") + "|" + strings.Join(pkg, " ") + "|" + strings.Join(rest, " ")
		if want := tc.flags + "|" + tc.pkg + "|" + tc.rest; got != want || ok != tc.ok {
			t.Errorf("Split(%s) = %s, %t, want %s, %t", tc.args, got, ok, want, tc.ok)
		}
	}
}
