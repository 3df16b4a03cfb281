package main

import (
	"os/exec"
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

func TestSplitWordsSplitsAsAShellDoes(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string // nil: an error
	}{
		{"ssh -F config", []string{"ssh", "-F", "config"}},
		{"  a\t'b c'\"d\\\"e\"\\ f  '' ", []string{"a", "b cd\"e f", ""}},
		{"", []string{}},
		{"'a", nil},
		{`"a\"`, nil},
		{`a\`, nil},
	} {
		got, err := splitWords(tc.in)
		if (err == nil) != (tc.want != nil) || !slices.Equal(got, tc.want) {
			t.Errorf("splitWords(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}

// FuzzSplitWords: a quoted word comes back whole, whatever it holds.
func FuzzSplitWords(f *testing.F) {
	f.Add("a b", "it's \"$x\"\n`y`\\")
	f.Fuzz(func(t *testing.T, a, b string) {
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		got, err := splitWords(quote(a) + " " + quote(b))
		if err != nil || !slices.Equal(got, []string{a, b}) {
			t.Errorf("splitWords of %q and %q quoted = %q, %v", a, b, got, err)
		}
		splitWords(a) // never panics
	})
}

func TestSplitWordsAgreesWithTheShell(t *testing.T) {
	for _, s := range []string{`a 'b  c' "d\$e\\f\g" \'h\ i '"' "'" `, `x"y"'z'w`, "''", `""`, `a\\b`} {
		out, err := exec.Command("/bin/sh", "-c", "for w in "+s+"; do printf '%s\\n' \"$w\"; done").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := splitWords(s)
		if err != nil || strings.Join(got, "\n")+"\n" != string(out) {
			t.Errorf("splitWords(%s) = %q, %v, want %q", s, got, err, out)
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
