//go:build amd64 || arm64

package f32

import (
	"testing"
	"time"
	"unsafe"
)

// The assembly reads the argument structs by offset: the constants here are those of gen/tile.go.
func TestArgumentLayoutIsWhatTheAssemblyReads(t *testing.T) {
	var g GatherArgs
	var s Segment
	var o OuterArgs
	var x TransposeArgs
	for name, c := range map[string]struct{ got, want uintptr }{
		"GatherArgs.W":          {unsafe.Offsetof(g.W), 24},
		"GatherArgs.Out":        {unsafe.Offsetof(g.Out), 48},
		"GatherArgs.Segments":   {unsafe.Offsetof(g.Segments), 72},
		"GatherArgs.Mask":       {unsafe.Offsetof(g.Mask), 96},
		"GatherArgs.Add":        {unsafe.Offsetof(g.Add), 104},
		"GatherArgs.InRow":      {unsafe.Offsetof(g.InRow), 112},
		"GatherArgs.OutRow":     {unsafe.Offsetof(g.OutRow), 208},
		"Segment.Len":           {unsafe.Offsetof(s.Len), 8},
		"Segment.W":             {unsafe.Offsetof(s.W), 16},
		"sizeof Segment":        {unsafe.Sizeof(s), 24},
		"OuterArgs.B":           {unsafe.Offsetof(o.B), 24},
		"OuterArgs.Out":         {unsafe.Offsetof(o.Out), 48},
		"OuterArgs.Pairs":       {unsafe.Offsetof(o.Pairs), 72},
		"OuterArgs.Add":         {unsafe.Offsetof(o.Add), 96},
		"TransposeArgs.Src":     {unsafe.Offsetof(x.Src), 24},
		"TransposeArgs.SrcMask": {unsafe.Offsetof(x.SrcMask), 48},
		"TransposeArgs.DstMask": {unsafe.Offsetof(x.DstMask), 56},
		"TransposeArgs.M":       {unsafe.Offsetof(x.M), 64},
		"TransposeArgs.SrcRow":  {unsafe.Offsetof(x.SrcRow), 80},
		"TransposeArgs.DstRow":  {unsafe.Offsetof(x.DstRow), 208},
	} {
		if c.got != c.want {
			t.Errorf("%s is at %d, the assembly reads %d", name, c.got, c.want)
		}
	}
}

func TestPeakIsAPositiveRate(t *testing.T) {
	for _, p := range Available() {
		rate := MeasurePeak(p, 20*time.Millisecond)
		t.Logf("%v: %.1f GFLOP/s a core", p, rate/1e9)
		if (rate > 0) != (p != Portable) {
			t.Errorf("%v: peak %g operations/s", p, rate)
		}
	}
}
