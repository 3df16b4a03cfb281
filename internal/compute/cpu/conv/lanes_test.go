package conv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// fewShapes have few output channels forward or backward: batches that fill no group of images and
// more than one, strides, padding that no tap leaves, windows of several tiles, LeNet's layers.
var fewShapes = []Shape{
	square(35, 9, 1, 6, 5, 1, 2),
	square(33, 8, 6, 16, 5, 1, 0),
	square(3, 7, 10, 11, 3, 2, 1),
	square(17, 5, 3, 20, 3, 1, 3), // some see nothing but padding
	square(2, 20, 2, 13, 3, 1, 1), // more pixels than one sum takes
	square(2, 9, 40, 5, 2, 3, 0),
	square(1, 3, 520, 3, 2, 1, 1), // a reduction in parts
	{N: 19, H: 5, W: 8, C: 4, K: 7, R: 1, S: 3, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1},
	{N: 3, H: 6, W: 1, C: 2, K: 3, R: 3, S: 4, StrideH: 2, StrideW: 1, PadH: 1, PadW: 3},
	{N: 3, H: 5, W: 6, C: 4, K: 5, R: 3, S: 3, StrideH: 1, StrideW: 3, PadH: 1, PadW: 1}, // no window reaches the last column
}

func TestConvolutionsToFewChannelsAreThoseOfThePlainLoops(t *testing.T) {
	all := runners(t, 1, 3)
	for i := range all {
		all[i].winograd = wherePossible
	}
	for i, s := range quick(slices.Concat(fewShapes, edgeShapes), 5e5) {
		check(t, s, uint64(i), all)
	}
}

// Of bfloat16, sums to few channels are those of float32, but for those of the weights' gradient.
func TestBFloat16ConvolutionsToFewChannels(t *testing.T) {
	for i, s := range fewShapes {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		x, w, dy := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
		exact, want := convolve(s, x, w, dy), convolve(s, rounded(x), w, rounded(dy))
		for _, run := range pairRunners(t, 2) {
			if run.unit || max(s.C, s.K) > run.tile().Cols {
				continue
			}
			run.winograd = wherePossible
			y, dx, dw := run.compute(t, s, x, w, dy)
			name := fmt.Sprintf("%v, bfloat16, %v: ", s, run.path)
			closeTo(t, name+"y", y, exact.y, exact.absY)
			closeTo(t, name+"dx", dx, exact.dx, exact.absDx)
			closeTo(t, name+"dw", dw, want.dw, want.absDw)
		}
	}
}

// LeNet's layers are computed in the ways for few channels where these pay: with AVX2, whose tiles
// have half as many columns, they pay in fewer passes.
func TestLeNetIsComputedInTheWaysForFewChannels(t *testing.T) {
	p := pool.New(2)
	defer p.Close()

	// few has both layers' forward, backward-data and backward-weight.
	few := map[f32.Path][2][3]bool{
		f32.AVX512: {{true, true, true}, {true, true, true}},
		f32.AVX2:   {{true, true, false}, {false, true, false}},
	}
	for _, path := range f32.Available() {
		want, ok := few[path]
		if !ok {
			continue // the estimate is for other tiles
		}
		for i, s := range []Shape{square(64, 28, 1, 6, 5, 1, 2), square(64, 14, 6, 16, 5, 1, 0)} {
			plan, err := newPlan(s, p, f32.Tiles(path), whereFaster)
			if err != nil {
				t.Fatal(err)
			}
			_, forward := plan.forward.(*laneGather)
			_, backward := plan.backward.(*laneGather)
			inner := plan.weight.(*widenedWeight).weightPass
			_, weight := inner.(*windowWeight)
			if got := [3]bool{forward, backward, weight}; got != want[i] {
				t.Errorf("%v, %v: passes are %T, %T and %T: those for few channels are %v, want %v", path, s, plan.forward, plan.backward, inner, got, want[i])
			}
		}
	}
}
