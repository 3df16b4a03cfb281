package conv

// usePixels numbers the pixels of an image of x that any tap meets, and returns how many there are.
func (w *weightPlan) usePixels() int {
	s := w.shape
	w.pixelOf = make([]int, s.H*s.W)
	for i := range w.pixelOf {
		w.pixelOf[i] = -1
	}
	w.eachProduct(func(_, x, _ int) { w.pixelOf[x] = 0 })
	n := 0
	for i, p := range w.pixelOf {
		if p < 0 {
			continue
		}
		w.pixelOf[i] = n
		last := len(w.runs) - 1
		switch {
		case last >= 0 && w.runs[last].count == 1:
			w.runs[last].step = i - w.runs[last].from
			w.runs[last].count++
		case last >= 0 && w.runs[last].from+w.runs[last].step*w.runs[last].count == i:
			w.runs[last].count++
		default:
			w.runs = append(w.runs, run{from: i, to: n, count: 1})
		}
		n++
	}
	return n
}

// A run is pixels of x, step apart, that lie side by side when packed.
type run struct{ from, to, step, count int }

// eachProduct calls f for each tap inside, in order of dy's pixels.
func (w *weightPlan) eachProduct(f func(tap, x, dy int)) {
	s := w.shape
	outH, outW := s.OutH(), s.OutW()
	rows, cols := forwardReach(s.H, s.R, s.StrideH, s.PadH), forwardReach(s.W, s.S, s.StrideW, s.PadW)
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

// plotPairs lists, for each tap, which packed pixel of x meets which of dy, for a full block.
func (w *weightPlan) plotPairs() {
	s := w.shape
	outPixels := s.OutH() * s.OutW()
	dyStep := w.tile.Cols
	if w.dyInPlace {
		dyStep = s.K
	}
	image := make([][][2]uint32, w.taps)
	if w.flat {
		for p := range outPixels {
			oh, ow := p/s.OutW(), p%s.OutW()
			image[0] = append(image[0], [2]uint32{uint32(oh*s.StrideH*w.padW + ow*s.StrideW), uint32(p)})
		}
	} else {
		w.eachProduct(func(tap, x, dy int) {
			image[tap] = append(image[tap], [2]uint32{uint32(w.pixelOf[x]), uint32(dy)})
		})
	}
	w.steps = (w.images*outPixels + stepPixels - 1) / stepPixels
	for _, list := range image {
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
		for len(bound) <= w.steps {
			bound = append(bound, len(pairs))
		}
		w.pairs, w.bounds = append(w.pairs, pairs), append(w.bounds, bound)
	}
}
