package main

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandRunsOneQuotedWordInAShell(t *testing.T) {
	for _, tc := range []struct{ args, want []string }{
		{[]string{"./p"}, []string{"./p"}},
		{[]string{"./p --lr 3 | tee log"}, []string{"/bin/sh", "-c", "./p --lr 3 | tee log"}},
		{[]string{"a;b"}, []string{"/bin/sh", "-c", "a;b"}},
		{[]string{"./p", "a b", "$x"}, []string{"./p", "a b", "$x"}},
		{nil, nil},
	} {
		if got := command(tc.args); !slices.Equal(got, tc.want) {
			t.Errorf("command(%q) = %q, want %q", tc.args, got, tc.want)
		}
	}
}

func TestSplitGoRun(t *testing.T) {
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
		flags, pkg, rest, ok := splitGoRun(strings.Fields(tc.args))
		got := strings.Join(flags, " ") + "|" + strings.Join(pkg, " ") + "|" + strings.Join(rest, " ")
		if want := tc.flags + "|" + tc.pkg + "|" + tc.rest; got != want || ok != tc.ok {
			t.Errorf("splitGoRun(%s) = %s, %t, want %s, %t", tc.args, got, ok, want, tc.ok)
		}
	}
}
