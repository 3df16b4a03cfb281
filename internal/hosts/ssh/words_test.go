package ssh

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSplitWordsSplitsAsAShellDoes(t *testing.T) {
	for _, tc := range []struct {
		in string

		// want is nil for an error.
		want []string
	}{
		{"ssh -F config", []string{"ssh", "-F", "config"}},
		{"  a\t'b c'\"d\\\"e\"\\ f  '' ", []string{"a", "b cd\"e f", ""}},
		{"", []string{}},
		{"'a", nil},
		{`"a\"`, nil},
		{`a\`, nil},
	} {
		got, err := SplitWords(tc.in)
		if (err == nil) != (tc.want != nil) || !slices.Equal(got, tc.want) {
			t.Errorf("SplitWords(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}

// FuzzSplitWords: a quoted word comes back whole, whatever it holds.
func FuzzSplitWords(f *testing.F) {
	f.Add("a b", "it's \"$x\"\n`y`\\")
	f.Fuzz(func(t *testing.T, a, b string) {
		got, err := SplitWords(Quote([]string{a, b}))
		if err != nil || !slices.Equal(got, []string{a, b}) {
			t.Errorf("SplitWords of %q and %q quoted = %q, %v", a, b, got, err)
		}
		SplitWords(a) // never panics
	})
}

func TestSplitWordsAgreesWithTheShell(t *testing.T) {
	for _, s := range []string{`a 'b  c' "d\$e\\f\g" \'h\ i '"' "'" `, `x"y"'z'w`, "''", `""`, `a\\b`} {
		out, err := exec.Command("/bin/sh", "-c", "for w in "+s+"; do printf '%s\\n' \"$w\"; done").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := SplitWords(s)
		if err != nil || strings.Join(got, "\n")+"\n" != string(out) {
			t.Errorf("SplitWords(%s) = %q, %v, want %q", s, got, err, out)
		}
	}
}
