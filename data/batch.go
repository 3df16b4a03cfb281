package data

import (
	"slices"
	"sync"
)

// A Batch is some examples, ready for a network.
type Batch struct {
	// Images is (BatchSize, C, H, W), row-major; nil from a Raw loader.
	Images []float32
	// Pixels are the same images as they were read, and Draws what was drawn for each; from a
	// Raw loader alone.
	Pixels []uint8
	Draws  []Draw
	// Labels and Indices belong to the images; Indices are those of the data set. The label of
	// an image that pads the batch is −1, and so is that of a damaged one, which may be
	// anywhere in the batch.
	Labels  []int32
	Indices []int
	// Targets is (BatchSize, W): the Labels of an ExampleReader with W numbers for an example,
	// or with Mix the shares of W classes. Rows of images that pad the batch or are damaged
	// have −1 everywhere, so a loss leaves them out. Nil: the data set has classes, and nothing
	// is mixed.
	Targets []float32
	// N is the number of examples of the data set: the first N. It is below
	// len(Labels) in a padded batch only.
	N int
	// Bad are the damaged examples among them, in order.
	Bad []*BadExampleError

	state *batchState
}

// A batchState is how far the reading of a batch is.
type batchState struct {
	// done gets the error of the whole batch, when it is ready.
	done chan error

	mu sync.Mutex // guards all below

	// left is the number of runs that are not read yet.
	left int

	// failed is the first place in the batch whose reading failed.
	failed int

	// err says why; nil: no reading did.
	err error

	bad []badAt
}

// A badAt is a damaged example at a place of a batch.
type badAt struct {
	at  int
	err *BadExampleError
}

// begin makes ready for reading so many runs.
func (s *batchState) begin(runs int) { s.left, s.err, s.bad = runs, nil, s.bad[:0] }

// fail records that the example at a place of the batch could not be read. Of several errors the
// one at the lowest place is kept, whichever was found first.
func (s *batchState) fail(at int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || at < s.failed {
		s.failed, s.err = at, err
	}
}

func (s *batchState) damaged(at int, err *BadExampleError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, badAt{at, err})
}

// end ends a run; last: it was the last one, so the batch belongs to the caller.
func (s *batchState) end() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left == 0
}

// A layout says how large the parts of a batch are.
type layout struct {
	batch int

	// pixels is how many an image has.
	pixels int

	// width is that of a row of Targets; 0: there are none.
	width int

	raw bool
}

func layoutOf(dataset Dataset, cfg LoaderConfig) layout {
	l := layout{batch: cfg.BatchSize, pixels: dataset.Shape().Size(), width: labelWidth(dataset), raw: cfg.Raw}
	if cfg.Mix.mixes() && l.width == 0 {
		l.width = cfg.Mix.Classes
	}
	return l
}

// bytes is the memory of a batch, nearly.
func (l layout) bytes() int64 {
	perPixel := 4
	if l.raw {
		perPixel = 1
	}
	return int64(l.batch) * (int64(l.pixels)*int64(perPixel) + int64(l.width)*4)
}

func (l layout) newBatch() *Batch {
	b := &Batch{Labels: make([]int32, l.batch), Indices: make([]int, l.batch), state: &batchState{done: make(chan error, 1)}}
	if l.raw {
		b.Pixels, b.Draws = make([]uint8, l.batch*l.pixels), make([]Draw, l.batch)
	} else {
		b.Images = make([]float32, l.batch*l.pixels)
	}
	if l.width > 0 {
		b.Targets = make([]float32, l.batch*l.width)
	}
	return b
}

// resize makes a batch have n examples, of which there is room for more.
func (l layout) resize(b *Batch, n int) {
	b.Labels, b.Indices, b.Targets = b.Labels[:n], b.Indices[:n], b.Targets[:n*l.width]
	if l.raw {
		b.Pixels, b.Draws = b.Pixels[:n*l.pixels], b.Draws[:n]
	} else {
		b.Images = b.Images[:n*l.pixels]
	}
}

// pad fills a batch up with its own images, from the first on.
func (l layout) pad(b *Batch) {
	for k := b.N; k < l.batch; k++ {
		b.Labels[k], b.Indices[k] = -1, b.Indices[k-b.N]
		l.leaveOut(b, k)
		if l.raw {
			copy(b.Pixels[k*l.pixels:(k+1)*l.pixels], b.Pixels[(k-b.N)*l.pixels:])
			b.Draws[k] = b.Draws[k-b.N]
		} else {
			copy(b.Images[k*l.pixels:(k+1)*l.pixels], b.Images[(k-b.N)*l.pixels:])
		}
	}
}

// target is the row of Targets of an image.
func (l layout) target(b *Batch, k int) []float32 { return b.Targets[k*l.width : (k+1)*l.width] }

// leaveOut makes losses leave the targets of an image out.
func (l layout) leaveOut(b *Batch, k int) {
	for i := range l.target(b, k) {
		b.Targets[k*l.width+i] = -1
	}
}

// tellBad fills Bad in.
func (b *Batch) tellBad() {
	s := b.state
	slices.SortFunc(s.bad, func(x, y badAt) int { return x.at - y.at })
	b.Bad = nil
	for _, x := range s.bad {
		b.Bad = append(b.Bad, x.err)
	}
}
