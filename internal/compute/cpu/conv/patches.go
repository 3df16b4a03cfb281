package conv

// A patchGrid is images cut into patches of side×side pixels. Those at the right and at the bottom
// may reach beyond the image.
type patchGrid struct {
	side int

	// h and w are the patches of an image, and all is the number of those of all images.
	h, w, all int
}

// newPatchGrid cuts n images of h×w pixels.
func newPatchGrid(n, h, w, side int) patchGrid {
	g := patchGrid{side: side, h: (h + side - 1) / side, w: (w + side - 1) / side}
	g.all = n * g.h * g.w
	return g
}

// at is the image of a patch, and the row and column of its first pixel.
func (g patchGrid) at(patch int) (image, row, col int) {
	return patch / (g.h * g.w), patch / g.w % g.h * g.side, patch % g.w * g.side
}
