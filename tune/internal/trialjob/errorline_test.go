package trialjob

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheLineThatSaysWhatWentWrongIsFound(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"epoch 1\nepoch 2\nmnist: --data is empty\n\n", "mnist: --data is empty"},
		{"flag provided but not defined: -lr\nUsage of ./mnist:\n  -batch int\n    \timages of a step (default 64)\n  -error int\n", "flag provided but not defined: -lr"},
		{"starting\nIncorrect Usage: flag provided but not defined: -x\n\nNAME:\n   x\n\nUSAGE:\n   x [flags]\n", "Incorrect Usage: flag provided but not defined: -x"},
		{"usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --rate=1\n", "train.py: error: unrecognized arguments: --rate=1"},
		{"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4 +0x1d\nexit status 2\n", "panic: boom"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: no lr\n", "ValueError: no lr"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: no lr\nwant one of\n  --lr\n", "ValueError: no lr"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n" +
			"  File \"x.py\", line 3, in <module>\n    g()\n    ^^^\nOSError: no file\nusage of it\n", "OSError: no file"},
		{"  File \"x.py\", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n", "SyntaxError: invalid syntax"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n", "File \"x.py\", line 1, in <module>"},
		{"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: tried again\n" + strings.Repeat("epoch\n", 30) + "no data\n", "no data"},
		{"usage: x\n", "usage: x"},
		{"launch: --sync wants a folder\nSee launch --help.\n", "launch: --sync wants a folder"},
		{"sort: invalid option -- 'Q'\nTry 'sort --help' for more information.\n", "sort: invalid option -- 'Q'"},
		{"See launch --help.\n", "See launch --help."},
		{strings.Repeat("a line\n", 3000) + "the last\n", "the last"},
	} {
		var e errorLines
		for line := range strings.Lines(tc.text) {
			e.add(strings.TrimSuffix(line, "\n"))
		}
		if got := e.text(); got != tc.want {
			t.Errorf("%.60q: got %q, want %q", tc.text, got, tc.want)
		}
		if len(e) > maxErrorLines {
			t.Errorf("%.60q: keeps %s", tc.text, fmt.Sprint(len(e)))
		}
	}
}
