package data

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// A Mix mixes each image of a batch with another one, and their labels with it: Mixup (arXiv
// 1710.09412) and CutMix (arXiv 1905.04899). The zero value mixes nothing. With both, each image
// has one of them, as a coin falls.
//
// How an image is mixed depends on (seed, epoch, its index) alone. Its partner is the next example
// of its batch, the first one for the last: so it depends on how the examples are divided into
// batches, but not on who reads them or when. An image whose partner is damaged stays as it is.
//
// A mixed batch has Targets, for a loss of soft labels. Labels remain those of the images
// themselves.
type Mix struct {
	// Mixup is α of Mixup: an image is λ of itself and 1−λ of its partner, λ drawn from Beta(α,
	// α). 0: none; 0.2 is usual.
	Mixup float64
	// CutMix is α of CutMix: a box of the partner with a share of 1−λ of the area, less what
	// the edge cuts off, is put into the image. 0: none; 1 is usual.
	CutMix float64
	// Classes is the number of classes. A data set whose examples have Labels of their own
	// needs none: these are mixed.
	Classes int
	// Smoothing is the share of each class's target that is spread over all classes before
	// targets are mixed, 0 to below 1: label smoothing, which a loss of soft targets leaves to
	// whoever makes them.
	Smoothing float64
}

func (m Mix) mixes() bool { return m.Mixup != 0 || m.CutMix != 0 }

func (m Mix) validate(labelWidth int, raw bool) error {
	if !m.mixes() {
		return nil
	}
	for _, a := range []struct {
		name  string
		alpha float64
	}{{"Mixup", m.Mixup}, {"CutMix", m.CutMix}} {
		if !(a.alpha >= 0) || math.IsInf(a.alpha, 0) {
			return fmt.Errorf("data: loader: Mix.%s: got %v, want a finite number of at least 0", a.name, a.alpha)
		}
	}
	switch {
	case raw:
		return errors.New("data: loader: Mix with Raw: a device that augments by itself cannot mix images; want one of them")
	case labelWidth == 0 && m.Classes < 1:
		return fmt.Errorf("data: loader: Mix.Classes: got %d, want the number of classes", m.Classes)
	case !(m.Smoothing >= 0 && m.Smoothing < 1):
		return fmt.Errorf("data: loader: Mix.Smoothing: got %v, want at least 0 and below 1", m.Smoothing)
	case m.Smoothing > 0 && labelWidth > 0:
		return fmt.Errorf("data: loader: Mix.Smoothing: got %v with labels of %d numbers, want 0: their targets are as they are", m.Smoothing, labelWidth)
	case labelWidth > 0 && m.Classes != 0 && m.Classes != labelWidth:
		return fmt.Errorf("data: loader: Mix.Classes: got %d, want %d, the numbers that labels have in the data set, or 0", m.Classes, labelWidth)
	}
	return nil
}

// A mixer mixes batches, one after the other. It belongs to one goroutine.
type mixer struct {
	Mix
	layout layout
	shape  Shape
	seed   uint64
	epoch  uint64
	source rand.PCG

	// draw has source as its source.
	draw *rand.Rand

	// firstImage and firstTarget are the batch's, before they were mixed.
	firstImage, firstTarget []float32
}

func newMixer(cfg LoaderConfig, l layout, shape Shape) *mixer {
	m := &mixer{Mix: cfg.Mix, layout: l, shape: shape, seed: mix(cfg.Seed, mixStream), epoch: uint64(cfg.Epoch),
		firstImage: make([]float32, l.pixels), firstTarget: make([]float32, l.width)}
	m.draw = rand.New(&m.source)
	return m
}

// mix mixes the examples of a batch, each with the next one.
func (m *mixer) mix(b *Batch) {
	size := m.layout.pixels
	copy(m.firstImage, b.Images[:size])
	copy(m.firstTarget, m.layout.target(b, 0))
	for k := range b.N {
		next := (k + 1) % b.N
		if next == k || b.Labels[k] < 0 || b.Labels[next] < 0 {
			continue
		}
		partner, target := b.Images[next*size:(next+1)*size], m.layout.target(b, next)
		if next == 0 {
			partner, target = m.firstImage, m.firstTarget
		}
		m.source.Seed(m.seed, mix(m.epoch, uint64(b.Indices[k])))
		share := m.image(b.Images[k*size:(k+1)*size], partner)
		blend(m.layout.target(b, k), target, float32(share))
	}
}

// class makes the targets of a class.
func (m *mixer) class(target []float32, label int) {
	rest := float32(m.Smoothing / float64(m.Classes))
	for i := range target {
		target[i] = rest
	}
	target[label] += float32(1 - m.Smoothing)
}

// image mixes an image with its partner, and returns the share that it has in the end.
func (m *mixer) image(image, partner []float32) (share float64) {
	if m.CutMix == 0 || m.Mixup != 0 && m.draw.Uint64()>>63 == 0 {
		share = beta(m.draw, m.Mixup)
		blend(image, partner, float32(share))
		return share
	}
	return m.cut(image, partner, beta(m.draw, m.CutMix))
}

// cut puts a box of the partner into an image.
func (m *mixer) cut(image, partner []float32, share float64) float64 {
	w, h := m.shape.Width, m.shape.Height
	x, y := m.draw.IntN(w), m.draw.IntN(h)
	half := 0.5 * math.Sqrt(1-share)
	left, right := max(x-int(half*float64(w)), 0), min(x+int(half*float64(w)), w)
	top, bottom := max(y-int(half*float64(h)), 0), min(y+int(half*float64(h)), h)
	for c := range m.shape.Channels {
		for row := top; row < bottom; row++ {
			at := (c*h + row) * w
			copy(image[at+left:at+right], partner[at+left:at+right])
		}
	}
	return 1 - float64((right-left)*(bottom-top))/float64(w*h)
}

// blend makes dst share·dst + (1−share)·other. The conversions keep processors from fusing the
// products with the sum, which would round otherwise.
func blend(dst, other []float32, share float32) {
	rest := 1 - share
	for i, v := range dst {
		dst[i] = float32(share*v) + float32(rest*other[i])
	}
}

// beta draws from Beta(α, α): the ratio of a gamma variate to the sum of two, in logarithms, since
// for a small α both may be nearly 0.
func beta(r *rand.Rand, alpha float64) float64 {
	x, y := logGamma(r, alpha), logGamma(r, alpha)
	return 1 / (1 + math.Exp(y-x))
}

// logGamma draws the logarithm of a variate of Gamma(α, 1): Marsaglia and Tsang, "A simple method
// for generating gamma variables" (2000), for α+1, and their step down to α.
func logGamma(r *rand.Rand, alpha float64) float64 {
	d := alpha + 1 - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return math.Log(d*v) + math.Log(1-r.Float64())/alpha
		}
	}
}
