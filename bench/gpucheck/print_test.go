package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestARowIsOneLineInAPipeAndFitsATerminal(t *testing.T) {
	r := row{Section: "ops", Name: "add", Status: fail, Value: 0.25, Unit: "relative error", Bound: 1e-3, Detail: "first " + strings.Repeat("word ", 30) + "\nsecond"}
	for _, width := range []int{0, 40, 80, 120, 500} {
		var out bytes.Buffer
		rep := report{out: &out, width: width}
		rep.head()
		rep.add(r)
		text := out.String()
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n >= width {
				t.Errorf("width %d: a line has %d characters:\n%s", width, n, text)
			}
			if strings.HasSuffix(line, " \n") {
				t.Errorf("width %d: a line ends with a space:\n%s", width, text)
			}
		}
		if width == 0 && strings.Count(text, "\n") != 2 {
			t.Errorf("in a pipe: got\n%s\nwant one line for the head and one for the row", text)
		}
		for _, want := range []string{"FAIL", "ops", "add", "0.25", "first word"} {
			if !strings.Contains(text, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, text)
			}
		}
		if strings.Contains(text, "second") || width != 40 && !strings.Contains(text, "0.25 relative error (0.001)") {
			t.Errorf("width %d: got\n%s", width, text)
		}
	}
}

type stuck struct{}

func (stuck) Write([]byte) (int, error) { select {} }

func TestAScreenThatTakesNothingHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := newScreen(stuck{})
	done := make(chan bool)
	go func() {
		for i := range 3 * cap(s.lines) {
			fmt.Fprintln(s, "row", i)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("rows are not taken")
	}
	begun := time.Now()
	if s.close(); time.Since(begun) > 10*time.Second {
		t.Errorf("close took %v", time.Since(begun))
	}
}
