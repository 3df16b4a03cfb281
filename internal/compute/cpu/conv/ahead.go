package conv

import "github.com/paragon-train/paragon/internal/compute/f32"

// An ahead is channels of pixels that are read next, which are fetched a few at a time while tiles
// are multiplied.
type ahead struct {
	from []float32

	// pixels is how many are left, and stride the number of values from one to the next.
	pixels, stride int

	channels int

	// share is the number of pixels at a time.
	share int
}

// fetchAhead is n channels from channel c0 of pixels from to to, each stride values, in so many
// calls of fetch.
func fetchAhead(all []float32, from, to, stride, c0, n, calls int) ahead {
	from, to = max(from, 0), min(to, len(all)/stride)
	if from >= to {
		return ahead{}
	}
	return ahead{from: all[from*stride+c0:], pixels: to - from, stride: stride, channels: n, share: (to-from)/calls + 1}
}

// fetch asks for the next share.
func (a *ahead) fetch(t *f32.Tile) {
	if a.pixels <= 0 {
		return
	}
	t.Fetch(a.from, a.stride, a.share, a.channels)
	a.pixels -= a.share
	a.from = a.from[min(len(a.from), a.share*a.stride):]
}

// imageRows tells where patches lie in images.
type imageRows struct {
	patches patchGrid

	// h and w are the image's, and pad is the number of rows of padding above it.
	h, w, pad int
}

// pixel is about the number, over all images, of the first pixel of a patch: as if the two rows of
// a row of patches were one.
func (r imageRows) pixel(patch int) int {
	g := r.patches
	row := patch / g.w
	return (row/g.h*r.h+row%g.h*g.side-r.pad)*r.w + patch%g.w*g.side*r.w/g.w
}
