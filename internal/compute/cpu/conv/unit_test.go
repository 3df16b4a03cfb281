package conv

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/testing/amxtest"
)

// unitShapes are computed by each way of the tile unit: maps on which units lie along rows, in
// place and copied; few pixels of many images, with frames that are not full; linear layers.
var unitShapes = []Shape{
	square(1, 17, 32, 33, 3, 1, 1),
	square(1, 18, 33, 9, 3, 2, 1),
	square(33, 2, 32, 9, 3, 1, 1),
	square(19, 3, 40, 32, 3, 2, 1),
	square(33, 1, 70, 20, 1, 1, 0),
	square(32, 1, 32, 65, 1, 1, 0),
	square(17, 4, 40, 64, 1, 2, 0),
	square(4, 24, 8, 9, 3, 1, 1), // dw in two strips of rows
	square(4, 3, 72, 65, 1, 1, 0),
	{N: 70, H: 18, W: 18, C: 8, K: 8, R: 1, S: 3, StrideH: 1, StrideW: 1, PadH: 0, PadW: 1}, // three blocks of images
	{N: 3, H: 2, W: 37, C: 32, K: 8, R: 1, S: 3, StrideH: 1, StrideW: 1, PadH: 0, PadW: 1},
	{N: 3, H: 40, W: 2, C: 32, K: 8, R: 3, S: 1, StrideH: 1, StrideW: 1, PadH: 1, PadW: 0},
}

func TestTileUnitComputesConvolutions(t *testing.T) {
	var all []runner
	for _, path := range []f32.Path{f32.Portable, f32.Active()} {
		for _, threads := range []int{1, 3} {
			p := pool.New(threads)
			t.Cleanup(p.Close)
			all = append(all, runner{path: path, pool: p, winograd: never, pairs: true, unit: path != f32.AMX})
		}
	}
	for i, s := range quick(unitShapes, 4e6) {
		checkPairs(t, s, uint64(i), all)
	}
}

// randomUnitShape is a shape of at most so many operations that the unit computes: channels that
// are no whole steps, batches that are none, strides, and padding wider than the map at times.
func randomUnitShape(r *rand.Rand, operations float64) Shape {
	for {
		one := func(n int) int { return 1 + r.IntN(n) }
		s := Shape{N: one(70), H: one(20), W: one(20), C: fewChannels + r.IntN(70), K: fewChannels + r.IntN(70), R: one(5), S: one(5),
			StrideH: one(3), StrideW: one(3), PadH: r.IntN(4), PadW: r.IntN(4)}
		if r.IntN(2) == 0 {
			s.N = one(3)
		}
		if s.Validate() == nil && s.Flops() <= operations {
			return s
		}
	}
}

// PARAGON_TEST_SLOW takes many shapes.
func randomShapes(few, many int) int {
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		return many
	}
	if testing.Short() {
		return min(few, 2)
	}
	return few
}

func TestTileUnitComputesRandomShapes(t *testing.T) {
	var all []runner
	for _, threads := range []int{1, 4} {
		p := pool.New(threads)
		t.Cleanup(p.Close)
		all = append(all, runner{path: f32.Portable, pool: p, winograd: never, pairs: true, unit: true})
	}
	for seed := range uint64(randomShapes(6, 300)) {
		s := randomUnitShape(rand.New(rand.NewPCG(seed, 11)), 2e6)
		checkPairs(t, s, seed, all)
		checkStored(t, s, seed, all[1])
	}
}

// The machine code of the unit itself, where there is none by a traced process.
func TestTileUnitsMachineCodeComputesConvolutions(t *testing.T) {
	amxtest.Run(t, f32.BFloat16Products() == f32.TileProducts, f32.FromEnv, func(t *testing.T) {
		p := pool.New(2)
		defer p.Close()
		if how := f32.BFloat16Products(); how != f32.TileProducts {
			t.Fatalf("products of bfloat16 are by %v, want %v", how, f32.TileProducts)
		}
		machine := runner{path: f32.AMX, pool: p, winograd: never, pairs: true}

		// Each instruction of the unit is a stop of the process that is traced.
		most := 6e5
		if os.Getenv("PARAGON_TEST_SLOW") != "" {
			most = 2e6
		}
		for i, s := range unitShapes {
			if s.Flops() < most {
				checkPairs(t, s, uint64(i), []runner{machine})
			}
		}
		for seed := range uint64(randomShapes(2, 60)) {
			s := randomUnitShape(rand.New(rand.NewPCG(seed, 12)), 3e5)
			checkPairs(t, s, seed, []runner{machine})
			checkStored(t, s, seed, machine)
		}
		// The emulated unit gives the same bits.
		s := square(5, 4, 32, 33, 3, 1, 1)
		r := rand.New(rand.NewPCG(9, 9))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		emulated := machine
		emulated.unit = true
		y, dx, dw := machine.compute(t, s, x, w, dy)
		wantY, wantDx, wantDw := emulated.compute(t, s, x, w, dy)
		sameArray(t, "y", f32.Array{F32: y}, wantY)
		sameArray(t, "dx", f32.Array{F32: dx}, wantDx)
		sameArray(t, "dw", f32.Array{F32: dw}, wantDw)
	})
}
