package traceviewer

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/tools/browser"
)

const small = `{"displayTimeUnit":"ms","otherData":{"id":7},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"worker 0"}},{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":2}},
{"ph":"M","pid":2,"name":"process_name","args":{"name":"server 0"}},{"ph":"M","pid":2,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"push"}},{"ph":"M","pid":2,"tid":1,"name":"thread_name","args":{"name":"round"}},
{"ph":"X","pid":1,"tid":1,"name":"conv1","cat":"push","ts":1000,"dur":2000.5,"cname":"good","args":{"bytes":64}},
{"ph":"X","pid":2,"tid":1,"name":"conv1","cat":"round","ts":2000,"dur":3000,"cname":"good"},
{"ph":"s","pid":1,"tid":1,"id":1,"name":"contribution","cat":"flow","ts":1000},
{"ph":"f","bp":"e","pid":2,"tid":1,"id":1,"name":"contribution","cat":"flow","ts":2000}%s]}`

func TestTheViewerReadsATrace(t *testing.T) {
	chromium := browser.Start(t)
	view := browser.View{Width: 1000, Height: 400}

	t.Run("all of a good one", func(t *testing.T) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write([]byte(strings.Replace(small, "%s", "", 1)))
		z.Close()
		v := Open(t, chromium, packed.Bytes(), view)
		good := browser.Eval[int](v.Page, `tr.b.ColorScheme.getColorIdForReservedName("good")`)
		want := Model{
			Processes: []Process{
				{2, "server 0", []string{}, []Thread{{"round", []Slice{{Title: "conv1", Category: "round", Begin: 1, Duration: 3, Args: map[string]any{}, Colour: good}}}}},
				{1, "worker 0", []string{}, []Thread{{"push", []Slice{{Title: "conv1", Category: "push", Begin: 0, Duration: 2.0005, Args: map[string]any{"bytes": 64.0}, Colour: good}}}}},
			},
			Flows:    []Flow{{"contribution", "flow", End{"worker 0", "push", "conv1", 0}, End{"server 0", "round", "conv1", 1}}},
			Warnings: []string{},
			Metadata: map[string]any{"otherData": map[string]any{"id": 7.0}},
		}
		v.Show(0, 4, true)
		v.Screenshot("traceviewer")
		v.Clean()
		if diff := cmp.Diff(want, v.Model); diff != "" {
			t.Errorf("the viewer read (- want, + got):\n%s", diff)
		}
	})
	t.Run("an arrow to nowhere is a warning", func(t *testing.T) {
		v := Open(t, chromium, []byte(strings.Replace(small, "%s", `,{"ph":"f","bp":"e","pid":2,"tid":1,"id":2,"name":"contribution","cat":"flow","ts":2000}`, 1)), view)
		if len(v.Model.Warnings) != 1 || !strings.Contains(v.Model.Warnings[0], "no flow start found") {
			t.Errorf("warnings: %q, want one of a flow without a start", v.Model.Warnings)
		}
	})
}
