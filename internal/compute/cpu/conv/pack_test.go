package conv

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// The bytes are those of the weights, read or written once.
func BenchmarkPack(b *testing.B) {
	p := pool.New(1)
	defer p.Close()
	shapes := []Shape{square(1, 8, 64, 64, 3, 1, 1), square(1, 2, 256, 256, 3, 1, 1), square(1, 4, 512, 512, 3, 1, 1), square(1, 1, 512, 512, 3, 1, 1), square(1, 4, 512, 512, 1, 1, 0)}
	for i, s := range slices.Concat(shapes, shapes) {
		tile, dtype := f32.Tiles(f32.Active()), "float32"
		if i >= len(shapes) {
			tile, dtype = f32.PairTiles(f32.Active()), "bfloat16"
		}
		plan, err := newPlan(s, p, tile, never)
		if err != nil {
			b.Fatal(err)
		}
		w := make([]float32, s.WLen())
		for name, pass := range map[string]gatherPass{"forward": plan.forward, "data": plan.backward} {
			g, ok := pass.(*gather)
			if !ok { // by a tile unit
				g = pass.(*unitGather).g
			}
			g.call.w = w
			g.takePacked(make([]float32, g.packedLen()))
			b.Run(fmt.Sprintf("w=%dx%dx%dx%d/taps=%d/dtype=%s/pass=%s", s.K, s.C, s.R, s.S, g.used, dtype, name), func(b *testing.B) {
				b.SetBytes(int64(4 * s.WLen()))
				for b.Loop() {
					p.Run(g.packTasks(), g.packTask)
				}
			})
		}
		wide, ok := plan.weight.(*widenedWeight)
		if !ok {
			continue
		}
		wp := wide.weightPass.(*weightPlan)
		sums := make([]float32, wp.sumLen)
		wp.out.dw = w
		b.Run(fmt.Sprintf("w=%dx%dx%dx%d/pass=weight", s.K, s.C, s.R, s.S), func(b *testing.B) {
			b.SetBytes(int64(4 * s.WLen()))
			for b.Loop() {
				for i := range wp.panels * wp.rowTiles {
					wp.out.write(sums, i/wp.rowTiles, i%wp.rowTiles)
				}
			}
		})
	}
}
