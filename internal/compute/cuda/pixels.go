package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// PixelsConfig says how bytes become the numbers of an input.
type PixelsConfig struct {
	// C, H and W are an image's. C is at most 4.
	C, H, W int

	// Mean and Std, one for each channel, make a byte p into (p/255 − mean)/std. Empty is 0 and 1.
	Mean, Std []float32
}

// Pixels is an input of images in bytes: the host's memory, which the user fills before a run.
type Pixels struct {
	// Images are (N,C,H,W).
	Images []uint8

	// Draws says for each image how it is shifted and mirrored, as Draw packs it. Zero is not
	// at all.
	Draws []int32
}

// Draw packs how one image is shifted and mirrored: see nn.Pixels.Draw.
func Draw(dx, dy int, flip bool) int32 { return kernels.Draw(dx, dy, flip) }

// pixels is an input whose numbers are made on the device, from bytes.
type pixels struct {
	shape kernels.Pixels

	// memory is pinned. It has the draws, then the bytes.
	memory []byte

	device drv.Ptr

	// direct says that numbers go to the input's own memory, as float32: one channel has one
	// layout.
	direct bool
}

// ErrNoPixels says that an input cannot be one of bytes.
var ErrNoPixels = errors.New("the input cannot be bytes")

// Pixels makes input i one of bytes, which are normalised, shifted and mirrored on the device;
// before, it is one of float32 numbers. It is called between runs.
func (e *Executor) Pixels(i int, cfg PixelsConfig) (*Pixels, error) {
	in := &e.inputs.list[i]
	if err := e.inputs.canBePixels(in, cfg); err != nil {
		return nil, err
	}
	n := in.value.Shape[0]
	p := &pixels{direct: cfg.C == 1, shape: kernels.Pixels{N: n, C: cfg.C, H: cfg.H, W: cfg.W}}
	copy(p.shape.Mean[:], cfg.Mean)
	copy(p.shape.Std[:], cfg.Std)
	err := e.gpu.context.Do(func() error {
		if err := p.alloc(e.gpu, in); err != nil {
			return err
		}
		in.pixels = p
		for k, o := range e.plan.Ops {
			if o.Kind == plan.Convert && o.In[0].Root() == in.value {
				e.ops[k].work = e.ops[k].bind()
			}
		}
		return e.makeSchedules()
	})
	if err != nil {
		return nil, err
	}
	return &Pixels{Draws: unsafe.Slice((*int32)(unsafe.Pointer(&p.memory[0])), n), Images: p.memory[4*n:]}, nil
}

// canBePixels is an error if an input cannot be one of bytes.
func (in *inputs) canBePixels(one *input, cfg PixelsConfig) error {
	v, n := one.value, one.value.Shape[0]
	switch {
	case one.pixels != nil:
		return fmt.Errorf("cuda: input %q is one of pixels already", v.Name)
	case one.float.mirror == nil:
		return fmt.Errorf("cuda: input %q is not read as float32 numbers", v.Name)
	case min(cfg.C, cfg.H, cfg.W) < 1 || cfg.C > 4 || v.Len() != n*cfg.C*cfg.H*cfg.W:
		return fmt.Errorf("cuda: input %q of shape %v cannot be %d images of %d×%d×%d pixels, at most 4 channels", v.Name, v.Shape, n, cfg.C, cfg.H, cfg.W)
	case len(cfg.Mean) != 0 && len(cfg.Mean) != cfg.C || len(cfg.Std) != 0 && len(cfg.Std) != cfg.C:
		return fmt.Errorf("cuda: input %q: got %d means and %d deviations, want one for each of %d channels", v.Name, len(cfg.Mean), len(cfg.Std), cfg.C)
	case cfg.C == 1:
		return nil
	}
	for _, o := range in.plan.Ops {
		for _, read := range o.In {
			if read != nil && read.Root() == v && (o.Kind != plan.Convert || read.Alias != nil || !read.Shape.Eq([]int{n, cfg.C, cfg.H, cfg.W})) {
				return fmt.Errorf("cuda: input %q: node %q reads it as (N,C,H,W): %w", v.Name, o.Node, ErrNoPixels)
			}
		}
	}
	return nil
}

// alloc takes memory for the draws and bytes of an input.
func (p *pixels) alloc(g *GPU, in *input) (err error) {
	draws := 4 * p.shape.N
	bytes := int64(draws + in.value.Len())
	if p.device, err = g.malloc("pixels", bytes); err != nil {
		return err
	}
	if p.memory, err = g.context.HostAlloc(bytes); err != nil {
		return errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for pixels: %w", bytes, err), p.close(g.context))
	}
	clear(p.memory)
	p.shape.Draws, p.shape.Src = p.device, p.device+drv.Ptr(draws)
	if p.direct {
		p.shape.Type, p.shape.Padded, p.shape.Dst = kernels.Float32, p.shape.C, in.device
	}
	return nil
}

// convert is the launch that makes channel-last numbers of the bytes, in place of one that moves
// float32 numbers.
func (p *pixels) convert(g *GPU, to kernels.Type, lanes int, dst drv.Ptr) launch {
	shape := p.shape
	shape.Type, shape.Padded, shape.Dst = to, lanes, dst
	return func(s drv.Stream) error { return g.kernels.Pixels(s, shape) }
}

// up copies draws and bytes to the device, which is a quarter of the numbers that are made of them
// there.
func (p *pixels) up(g *GPU, s drv.Stream) error {
	err := g.context.CopyToDevice(p.device, unsafe.Pointer(&p.memory[0]), int64(len(p.memory)), s)
	if err != nil || !p.direct {
		return err
	}
	return g.kernels.Pixels(s, p.shape)
}

func (p *pixels) close(c driver) error {
	var errs []error
	if p.device != 0 {
		errs = append(errs, c.Free(p.device))
	}
	if p.memory != nil {
		errs = append(errs, c.HostFree(p.memory))
	}
	p.device, p.memory = 0, nil
	return errors.Join(errs...)
}
