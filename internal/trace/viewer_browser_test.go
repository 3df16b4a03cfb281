//go:build browser

package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/browser"
	"github.com/paragon-train/paragon/internal/testing/browser/traceviewer"
)

// A real viewer reads every span and every arrow of a timeline, and has nothing to complain of.
func TestTheViewerReadsATimeline(t *testing.T) {
	line := twoByTwo(2)
	line.Nodes[0].Dropped, line.Nodes[0].Missing = 3, "it was declared lost: no heartbeat for 10 s"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	s, err := line.WriteChrome(z)
	if err != nil {
		t.Fatal(err)
	}
	z.Close()
	v := traceviewer.Open(t, browser.Start(t), packed.Bytes(), browser.View{Width: 1400, Height: 900})
	names, spans := []string{}, 0
	for _, p := range v.Model.Processes {
		names = append(names, p.Name)
		for _, x := range p.Threads {
			spans += len(x.Slices)
			if x.Name == "" {
				t.Errorf("a lane of %s has no name", p.Name)
			}
		}
	}
	if want := []string{"worker 0 on h0", "worker 1 on h1", "server 0 on h0 (incomplete)", "server 1 on h1"}; !slices.Equal(names, want) {
		t.Errorf("processes %q, want %q", names, want)
	}
	if spans != s.Spans || len(v.Model.Warnings) > 0 {
		t.Errorf("the viewer has %d spans of %d, and warns %q", spans, s.Spans, v.Model.Warnings)
	}
	// Each arrow is two for the viewer: from the push to the round, and from there to the pull.
	ends := map[string]int{}
	for _, f := range v.Model.Flows {
		ends[fmt.Sprintf("%s > %s", unnumbered(f.From.Thread), unnumbered(f.To.Thread))]++
	}
	if ends["push > round"] != s.Arrows || ends["round > pull"] != s.Arrows || len(ends) != 2 {
		t.Errorf("arrows %v, want %d from pushes to rounds and as many from rounds to pulls", ends, s.Arrows)
	}
	v.Show(0, 200, true)
	v.Screenshot("timeline")
	v.Clean()
}

// unnumbered is the name of a lane without its number.
func unnumbered(name string) string { return strings.TrimRight(name, " 0123456789") }
