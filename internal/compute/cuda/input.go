package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// An input is the device's memory of one input of the plan.
type input struct {
	value  *plan.Value
	device drv.Ptr

	// float is the span of float32 numbers, which lie in a mirror.
	float span

	ints []int32 // pinned, of labels and row numbers

	// least and most are the bounds of those.
	least, most int

	labels, ids bool // what ops read them as

	// what is "label of example" or "id at position".
	what string

	// pixels are in place of float32 numbers.
	pixels *pixels
}

// allocInputs takes memory for all inputs that an op reads.
func (e *Executor) allocInputs() error {
	e.inputs = make([]input, len(e.plan.Inputs))
	for i, v := range e.plan.Inputs {
		e.inputs[i] = input{value: v, least: math.MinInt32, most: math.MaxInt32}
	}
	numbers := make([]bool, len(e.inputs)) // read as such
	indices := make([]bool, len(e.inputs))
	for _, o := range e.plan.Ops {
		at, least, most, what := -1, 0, 0, ""
		switch o.Kind {
		case plan.CrossEntropy, plan.CrossEntropyGrad:
			at, least, most, what = 1, -1, o.In[0].Shape[1]-1, "label of example"
		case plan.Embedding:
			at, most, what = 1, o.In[0].Shape[0]-1, "id at position"
		case plan.EmbeddingGrad:
			at, most, what = 0, o.Out[0].Shape[0]-1, "id at position"
		}
		for k, v := range o.In {
			if v == nil {
				continue
			}
			r := v.Root()
			switch {
			case k == at && r.Source != plan.Input:
				return fmt.Errorf("cuda: node %q: %v: argument %d (%q) is computed in the graph, want an input", o.Node, o.Kind, k, v.Name)
			case k == at:
				in := &e.inputs[e.inputIndex(r)]
				in.least, in.most, in.what = max(in.least, least), min(in.most, most), fmt.Sprintf("node %q: %v: %s", o.Node, o.Kind, what)
				in.labels, in.ids = in.labels || least < 0, in.ids || least == 0
				indices[e.inputIndex(r)] = true
			case r.Source == plan.Input:
				numbers[e.inputIndex(r)] = true
				if r.Boxed {
					return fmt.Errorf("cuda: node %q: %v: argument %d (%q) is %v, want float32", o.Node, o.Kind, k, v.Name, v.Dtype)
				}
			}
		}
	}
	for i := range e.inputs {
		in := &e.inputs[i]
		var err error
		switch {
		case indices[i] && numbers[i]:
			return fmt.Errorf("cuda: input %q is read as labels and as numbers", in.value.Name)
		case indices[i]:
			err = in.allocInts(e.gpu)
		case numbers[i]:
			if in.float, err = e.floats.span(e.host.Inputs[i].Data.([]float32)); err == nil {
				in.device = in.float.mirror.device + drv.Ptr(in.float.from)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *input) allocInts(g *GPU) error {
	n := int64(in.value.Len())
	var err error
	if in.device, err = g.malloc("inputs", 4*n); err != nil {
		return err
	}
	m, err := g.context.HostAlloc(4 * n)
	if err != nil {
		return errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for input %q: %w", 4*n, in.value.Name, err), g.context.Free(in.device))
	}
	in.ints = unsafe.Slice((*int32)(unsafe.Pointer(&m[0])), n)
	return nil
}

// take reads labels and row numbers from the user's memory, and checks them: a kernel could not say
// what is wrong. there is how many of them belong to examples; of the others, labels are −1 on the
// device and are not looked at.
func (in *input) take(data any, there int) error {
	switch {
	case !in.labels || there == len(in.ints):
		there = len(in.ints)
	case in.ids:
		return fmt.Errorf("cuda: input %q is read as labels and as ids; a batch of it cannot be short", in.value.Name)
	}
	switch d := data.(type) {
	case []int32:
		return takeInts(in, d, there)
	case []int64:
		return takeInts(in, d, there)
	case []int:
		return takeInts(in, d, there)
	case []float32:
		return takeInts(in, d, there)
	}
	return fmt.Errorf("cuda: input %q is %T, want int32, int64, int or float32", in.value.Name, data)
}

func takeInts[T int32 | int64 | int | float32](in *input, data []T, there int) error {
	for i, v := range data[:there] {
		n := int(v)
		if n < in.least || n > in.most {
			return fmt.Errorf("cuda: run %s %d is %d, want %d to %d", in.what, i, n, in.least, in.most)
		}
		in.ints[i] = int32(n)
	}
	for i := there; i < len(in.ints); i++ {
		in.ints[i] = -1
	}
	return nil
}

// up copies the input to the device.
func (in *input) up(g *GPU, s drv.Stream) error {
	switch {
	case in.ints != nil:
		return g.context.CopyToDevice(in.device, unsafe.Pointer(&in.ints[0]), int64(4*len(in.ints)), s)
	case in.pixels != nil:
		return in.pixels.up(g, s)
	case in.float.mirror != nil:
		return in.float.up(s)
	}
	return nil // no op reads it
}

func (in *input) close(c driver) error {
	var errs []error
	if in.ints != nil {
		errs = append(errs, c.Free(in.device), c.HostFree(unsafe.Slice((*byte)(unsafe.Pointer(&in.ints[0])), 4*len(in.ints))))
	}
	if in.pixels != nil {
		errs = append(errs, in.pixels.close(c))
	}
	*in = input{}
	return errors.Join(errs...)
}

// PixelsConfig says how bytes become the numbers of an input.
type PixelsConfig struct {
	// C, H and W are an image's. C is at most 4.
	C, H, W int

	// Mean and Std, one for each channel, make a byte p into (p/255 − mean)/std. Empty is 0 and 1.
	Mean, Std []float32
}

// Pixels is an input of images in bytes: the host's memory, which the user fills before a run.
type Pixels struct {
	Images []uint8 // (N,C,H,W)
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
	in := &e.inputs[i]
	name := in.value.Name
	n := in.value.Shape[0]
	switch {
	case in.pixels != nil:
		return nil, fmt.Errorf("cuda: input %q is one of pixels already", name)
	case in.float.mirror == nil:
		return nil, fmt.Errorf("cuda: input %q is not read as float32 numbers", name)
	case min(cfg.C, cfg.H, cfg.W) < 1 || cfg.C > 4 || in.value.Len() != n*cfg.C*cfg.H*cfg.W:
		return nil, fmt.Errorf("cuda: input %q of shape %v cannot be %d images of %d×%d×%d pixels, at most 4 channels", name, in.value.Shape, n, cfg.C, cfg.H, cfg.W)
	case len(cfg.Mean) != 0 && len(cfg.Mean) != cfg.C || len(cfg.Std) != 0 && len(cfg.Std) != cfg.C:
		return nil, fmt.Errorf("cuda: input %q: got %d means and %d deviations, want one for each of %d channels", name, len(cfg.Mean), len(cfg.Std), cfg.C)
	}
	p := &pixels{direct: cfg.C == 1, shape: kernels.Pixels{N: n, C: cfg.C, H: cfg.H, W: cfg.W}}
	copy(p.shape.Mean[:], cfg.Mean)
	copy(p.shape.Std[:], cfg.Std)
	if !p.direct {
		for _, o := range e.plan.Ops {
			for _, v := range o.In {
				if v != nil && v.Root() == in.value && (o.Kind != plan.Convert || v.Alias != nil || !v.Shape.Eq([]int{n, cfg.C, cfg.H, cfg.W})) {
					return nil, fmt.Errorf("cuda: input %q: node %q reads it as (N,C,H,W): %w", name, o.Node, ErrNoPixels)
				}
			}
		}
	}
	bytes := int64(4*n + in.value.Len())
	err := e.gpu.context.Do(func() error {
		var err error
		if p.device, err = e.gpu.malloc("pixels", bytes); err != nil {
			return err
		}
		if p.memory, err = e.gpu.context.HostAlloc(bytes); err != nil {
			return errors.Join(fmt.Errorf("cuda: pinned memory of %d bytes for pixels: %w", bytes, err), p.close(e.gpu.context))
		}
		clear(p.memory)
		p.shape.Draws, p.shape.Src = p.device, p.device+drv.Ptr(4*n)
		if p.direct {
			p.shape.Type, p.shape.Padded, p.shape.Dst = kernels.Float32, cfg.C, in.device
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

// bytesInput is the pixels that v's numbers are made of; nil if they are numbers.
func (e *Executor) bytesInput(v *plan.Value) *pixels {
	r := v.Root()
	if r.Source != plan.Input {
		return nil
	}
	if p := e.inputs[e.inputIndex(r)].pixels; p != nil && !p.direct {
		return p
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
