package options

import (
	"slices"
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
		if got := WorkerCommand(tc.args); !slices.Equal(got, tc.want) {
			t.Errorf("workerCommand(%q) = %q, want %q", tc.args, got, tc.want)
		}
	}
}
