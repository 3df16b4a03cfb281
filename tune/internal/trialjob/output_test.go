package trialjob

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/control"
)

// Metrics are on whole lines of rank 0's standard output, whatever other processes and streams
// print.
func TestMetricsAreOnWholeLinesOfRank0(t *testing.T) {
	var got []int
	dir := t.TempDir()
	o := newOutput(outputConfig{folder: dir, report: func(step int, _ map[string]float64) { got = append(got, step) }})
	for i, l := range []control.Line{
		{Role: control.Worker, Stream: control.Stdout},
		{Role: control.Worker, Stream: control.Stderr},
		{Role: control.Worker, Rank: 1, Stream: control.Stdout},
		{Role: control.Server, Stream: control.Stdout},
		{Role: control.Worker, Stream: control.Stdout, More: true},
		{Role: control.Worker, Stream: control.Stdout}, // the rest of the line before
		{Role: control.Worker, Stream: control.Stdout},
	} {
		l.Text = fmt.Sprintf("value=1 step=%d", i)
		if _, err := o.out.Stdout.Write(l.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.out.Stderr.Write([]byte("launch: worker 0 | value=1 step=9\n")); err != nil {
		t.Fatal(err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
	if want := []int{0, 6}; !slices.Equal(got, want) {
		t.Errorf("metrics were found at steps %v, want %v", got, want)
	}
	for file, want := range map[string]string{
		"worker_0.log": "value=1 step=0\nvalue=1 step=1\nvalue=1 step=4value=1 step=5\nvalue=1 step=6\n",
		"worker_1.log": "value=1 step=2\n",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != want {
			t.Errorf("%s holds %q, %v, want %q", file, text, err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, launchLog))
	if err != nil || !strings.Contains(string(text), "launch: worker 0 | value=1 step=9\n") || !strings.Contains(string(text), "value=1 step=3\n") {
		t.Errorf("%s holds %q, %v, want launch's message and the server's line", launchLog, text, err)
	}
	if got, want := o.errorOf(control.Worker, 0), "value=1 step=1"; got != want {
		t.Errorf("the last line of a standard error is %q, want %q", got, want)
	}
}
