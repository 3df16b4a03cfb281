package conv

// A usedPixels numbers the pixels of an image of x that any tap meets.
type usedPixels struct {
	n int

	// of has the number of each pixel of x, −1 if no tap meets it.
	of []int

	// runs are the same as runs of pixels.
	runs []run
}

// A run is pixels of x, step apart, that lie side by side when packed.
type run struct{ from, to, step, count int }

func (s Shape) usedPixels() usedPixels {
	u := usedPixels{of: make([]int, s.H*s.W)}
	for i := range u.of {
		u.of[i] = -1
	}
	s.eachProduct(func(_, x, _ int) { u.of[x] = 0 })
	for i, p := range u.of {
		if p < 0 {
			continue
		}
		u.of[i] = u.n
		last := len(u.runs) - 1
		switch {
		case last >= 0 && u.runs[last].count == 1:
			u.runs[last].step = i - u.runs[last].from
			u.runs[last].count++
		case last >= 0 && u.runs[last].from+u.runs[last].step*u.runs[last].count == i:
			u.runs[last].count++
		default:
			u.runs = append(u.runs, run{from: i, to: u.n, count: 1})
		}
		u.n++
	}
	return u
}

// eachProduct calls f for each tap inside, in order of dy's pixels.
func (s Shape) eachProduct(f func(tap, x, dy int)) {
	outH, outW := s.OutH(), s.OutW()
	rows, cols := s.forwardReach()
	for oh := range outH {
		tr, ir := rows(oh)
		for ow := range outW {
			ts, is := cols(ow)
			for i, r := range tr {
				for j, q := range ts {
					f(r*s.S+q, ir[i]*s.W+is[j], oh*outW+ow)
				}
			}
		}
	}
}

// A weightProducts says which packed values are multiplied, for a full block of images.
type weightProducts struct {
	// pairs has, for each tap, the packed x and packed dy offset of each product, in order of dy's
	// pixels.
	pairs [][][2]uint32

	// bounds has, for each tap, the pairs before each step of a block, and at its end.
	bounds [][]int

	// steps are those in a full block.
	steps int
}

// plot lists, for each tap, which packed pixel of x meets which of dy.
func (w *weightPlan) plot() weightProducts {
	s := w.shape
	outPixels := s.OutH() * s.OutW()
	dyStep := w.tile.Cols
	if w.dyInPlace {
		dyStep = s.K
	}
	all := weightProducts{steps: (w.images*outPixels + stepPixels - 1) / stepPixels}
	for _, list := range w.plotImage() {
		pairs := make([][2]uint32, 0, len(list)*w.images)
		bound := []int{0}
		for n := range w.images {
			for _, p := range list {
				dy := n*outPixels + int(p[1])
				for len(bound) <= dy/stepPixels {
					bound = append(bound, len(pairs))
				}
				pairs = append(pairs, [2]uint32{uint32((n*w.xPixels + int(p[0])) * w.xStep), uint32(dy * dyStep)})
			}
		}
		for len(bound) <= all.steps {
			bound = append(bound, len(pairs))
		}
		all.pairs, all.bounds = append(all.pairs, pairs), append(all.bounds, bound)
	}
	return all
}

// plotImage is the same for one image, in pixels.
func (w *weightPlan) plotImage() [][][2]uint32 {
	s := w.shape
	image := make([][][2]uint32, w.taps)
	if !w.flat {
		s.eachProduct(func(tap, x, dy int) {
			image[tap] = append(image[tap], [2]uint32{uint32(w.used.of[x]), uint32(dy)})
		})
		return image
	}
	for p := range s.OutH() * s.OutW() {
		oh, ow := p/s.OutW(), p%s.OutW()
		image[0] = append(image[0], [2]uint32{uint32(oh*s.StrideH*w.padW + ow*s.StrideW), uint32(p)})
	}
	return image
}
