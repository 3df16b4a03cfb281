package nn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/cuda"
)

// PixelsConfig says how the bytes of images become the numbers of an input.
type PixelsConfig struct {
	// Channels, Height and Width are those of an image, which has at most 4 channels.
	Channels, Height, Width int
	// Mean and Std, one for each channel, make a byte p into (p/255 − mean)/std. Empty is 0 and 1.
	Mean, Std []float32
}

// Pixels is an input of images as bytes. Its slices are the program's own memory.
type Pixels struct {
	// Images are (N,C,H,W).
	Images []uint8
	draws  []int32
	cfg    PixelsConfig
}

// made reports whether cfg is the configuration that the pixels have.
func (p *Pixels) made(cfg PixelsConfig) bool {
	return p.cfg.Channels == cfg.Channels && p.cfg.Height == cfg.Height && p.cfg.Width == cfg.Width && slices.Equal(p.cfg.Mean, cfg.Mean) && slices.Equal(p.cfg.Std, cfg.Std)
}

// Len is the number of images of a batch.
func (p *Pixels) Len() int { return len(p.draws) }

// Draw sets how image i is shifted and mirrored: the number at column x, row y is made from the
// byte at column x+dx (or the mirrored column, if flip), row y+dy, and from 0 outside of the image.
// dx and dy are from −128 to 127; others panic.
func (p *Pixels) Draw(i, dx, dy int, flip bool) {
	if min(dx, dy) < -128 || max(dx, dy) > 127 {
		panic(fmt.Sprintf("nn: Pixels.Draw: got a shift of %d and %d, want -128 to 127", dx, dy))
	}
	p.draws[i] = cuda.Draw(dx, dy, flip)
}

// ErrNoPixels: the program's device takes numbers, not bytes, or the program uses the input in a
// way that needs numbers.
var ErrNoPixels = errors.New("the device does not take images as bytes")

// Pixels turns a float32 input into an input of bytes, which the device shifts, mirrors and
// normalises: a quarter of the bytes are copied, and the host computes nothing. The memory of Input
// is not read from then on. Call it before the first step; a second call with the same cfg returns
// the same Pixels. A device without it, such as a CPU, returns ErrNoPixels.
func (p *Program) Pixels(name string, cfg PixelsConfig) (*Pixels, error) {
	if p.executor == nil {
		return nil, errClosed
	}
	if _, err := p.Input(name); err != nil {
		return nil, err
	}
	if m := p.pixels[name]; m != nil && m.made(cfg) {
		return m, nil
	}
	e, ok := p.executor.(interface {
		Pixels(i int, cfg cuda.PixelsConfig) (*cuda.Pixels, error)
	})
	if !ok {
		return nil, fmt.Errorf("nn: input %q on %v: %w", name, p.device, ErrNoPixels)
	}
	for i, v := range p.plan.Inputs {
		if v.Name != name {
			continue
		}
		m, err := e.Pixels(i, cuda.PixelsConfig{C: cfg.Channels, H: cfg.Height, W: cfg.Width, Mean: cfg.Mean, Std: cfg.Std})
		if errors.Is(err, cuda.ErrNoPixels) {
			return nil, fmt.Errorf("nn: %w: %w", ErrNoPixels, err)
		}
		if err != nil {
			return nil, fmt.Errorf("nn: %w", err)
		}
		cfg.Mean, cfg.Std = slices.Clone(cfg.Mean), slices.Clone(cfg.Std)
		if p.pixels == nil {
			p.pixels = make(map[string]*Pixels)
		}
		p.pixels[name] = &Pixels{Images: m.Images, draws: m.Draws, cfg: cfg}
		return p.pixels[name], nil
	}
	return nil, fmt.Errorf("nn: the program has no input %q", name)
}
