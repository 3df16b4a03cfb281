package conv

import "testing"

func TestPatchesCoverImages(t *testing.T) {
	const n, h, w, side = 3, 5, 7, 2
	g := newPatchGrid(n, h, w, side)
	var covered [n][h][w]int
	for p := range g.all {
		image, row, col := g.at(p)
		for y := row; y < min(h, row+side); y++ {
			for x := col; x < min(w, col+side); x++ {
				covered[image][y][x]++
			}
		}
	}
	for image := range covered {
		for y, row := range covered[image] {
			for x, times := range row {
				if times != 1 {
					t.Fatalf("image %d: pixel (%d,%d) is in %d patches, want 1", image, y, x, times)
				}
			}
		}
	}
}

func TestUsedPixelsAreNumberedInOrder(t *testing.T) {
	// Every second pixel of a row of seven is met.
	u := Shape{N: 1, H: 1, W: 7, C: 1, K: 1, R: 1, S: 1, StrideH: 1, StrideW: 2}.usedPixels()
	if u.n != 4 || len(u.runs) != 1 || u.runs[0] != (run{from: 0, to: 0, step: 2, count: 4}) {
		t.Errorf("got %d pixels in runs %v, want 4 in one, two apart", u.n, u.runs)
	}
	for x, want := range []int{0, -1, 1, -1, 2, -1, 3} {
		if u.of[x] != want {
			t.Errorf("pixel %d: got number %d, want %d", x, u.of[x], want)
		}
	}
}

func TestSumsOfTapsThatNoPixelUsesAreZeros(t *testing.T) {
	got := sumRows(2, 3, func(tap int) bool { return tap != 1 })
	want := []int{0, 6, 4, 1, 6, 5}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got rows %v, want %v", got, want)
		}
	}
}
