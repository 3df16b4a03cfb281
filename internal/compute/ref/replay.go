package ref

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/tensor"
)

// A Format is how numbers of 16 bits are stored.
type Format struct {
	// bits are those of precision, and least is the exponent of the smallest step.
	bits, least int

	largest float64
}

// The formats. Exact stores numbers as they are.
var (
	Exact    = Format{}
	BFloat16 = Format{8, -133, 0x1.fep127}
	Float16  = Format{11, -24, 65504}
)

// step is the distance of neighbours at x.
func (f Format) step(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-f.bits, f.least))
}

// Round is the number of the format that is nearest to x, of two the even one.
func (f Format) Round(x float64) float64 {
	if f.bits == 0 || x == 0 || x-x != 0 {
		return x
	}
	s := f.step(x)
	r := math.RoundToEven(x/s) * s
	if math.Abs(r) > f.largest {
		return math.Copysign(math.Inf(1), x)
	}
	return r
}

func (f Format) rounded(x []float64) []float64 {
	if f.bits == 0 {
		return x
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f.Round(v)
	}
	return out
}

// A Replay computes a step of a plan op by op in float64, and rounds numbers where an executor
// does: what the plan stores in 2 bytes, and the operands of products.
//
// Rounding makes a step a rough function: two ways to add the same numbers, both right to float32's
// last bit, round some number to different neighbours, and ReLUs and further roundings make much of
// it in a deep net. So where a Replay is shown what an executor stored, it takes that over: in 16
// bits wherever it is one of the two neighbours of the exact result of what was stored before, that
// is if the exact number was nearest to it or as good as half way, and in float32, of programs with
// 16 bits, where it is a tenth of Follow off at most. Of each number it can then be told whether it
// was computed and rounded rightly, and gradients can be compared to the precision of float32 sums.
type Replay struct {
	// Scale is the gradient of the loss with respect to itself, by which Grad divides; 0 is 1.
	Scale float64
	// Follow is how far beyond half a step from the exact number a stored one may lie to be
	// taken over, as a part of the root of the mean square of the op's results. NewReplay sets
	// a thousandth: sums in float32 are off by less, and neighbours of that size are four times
	// as far from each other and more.
	Follow float64
	// Step and Stream are what dropout goes by.
	Step, Stream uint64
	// Examples is how many examples of the plan's Batch are there.
	Examples int

	plan    *plan.Plan
	host    *plan.Host
	operand Format

	// values are by root.
	values map[*plan.Value][]float64

	pooled map[*plan.Value]*tensor.Dense
	states map[string]*op.BatchNormState
	stored []Stored
}

// Stored is how an executor stored the results of an op.
type Stored struct {
	Op      int
	Name    string // "Conv2D of layer1.0.conv1"
	Numbers int    // of 2 bytes

	// Others is how many of them are neither of the neighbours.
	Others int

	// Beyond is the most that one lay beyond half a step from the exact number, and Off the
	// distance of results in float32 from the exact ones, both as a part of the root of their
	// mean square.
	Beyond, Off float64
}

// NewReplay prepares a replay of the next step: it reads parameters, inputs and running statistics.
// Operands of products are rounded to operand. The plan is one that an executor has chosen types
// for; images in bytes are not known.
func NewReplay(p *plan.Plan, host *plan.Host, operand Format) (*Replay, error) {
	r := &Replay{Follow: 1e-3, Examples: p.Batch, plan: p, host: host, operand: operand, values: make(map[*plan.Value][]float64), pooled: make(map[*plan.Value]*tensor.Dense), states: make(map[string]*op.BatchNormState)}
	for i, v := range p.Params {
		r.values[v.Root()] = float64s(host.Params[i])
	}
	for i, v := range p.Inputs {
		switch d := host.Inputs[i].Data.(type) {
		case []float32:
			r.values[v.Root()] = float64s(d)
		case []int32:
			r.values[v.Root()] = float64s(d)
		case []int64:
			r.values[v.Root()] = float64s(d)
		case []int:
			r.values[v.Root()] = float64s(d)
		default:
			return nil, fmt.Errorf("ref: new replay: input %q is %T, want numbers", v.Name, d)
		}
	}
	for name, s := range host.States {
		r.states[name] = &op.BatchNormState{Name: name, Mean: vector(float64s(s.Mean)), Var: vector(float64s(s.Var))}
	}
	return r, nil
}

func float64s[T float32 | int32 | int64 | int](x []T) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func vector(x []float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(x)), tensor.WithBacking(x))
}

// numbers are a value's, in the order of its shape whatever its layout.
func (r *Replay) numbers(v *plan.Value) ([]float64, error) {
	root := v.Root()
	if m, ok := r.values[root]; ok {
		return m, nil
	}
	switch root.Source {
	case plan.Seed:
		return []float64{r.scale()}, nil
	case plan.Constant, plan.Parameter:
		m, err := Numbers(root.Node.Value())
		r.values[root] = m
		return m, err
	}
	return nil, fmt.Errorf("ref: replay: %v was not computed", v)
}

func (r *Replay) scale() float64 {
	if r.Scale == 0 || r.plan.Seed == nil {
		return 1
	}
	return r.Scale
}

// Next computes op i, which is the one after the last. got are the executor's results, in the order
// of shapes: 2-byte numbers that are roundings of the exact ones are taken over. A nil one, or no
// got, is rounded to nearest.
func (r *Replay) Next(i int, got [][]float32) error {
	o := r.plan.Ops[i]
	out, slack, err := r.compute(o)
	if err != nil {
		return fmt.Errorf("ref: replay: op %d, %v: %w", i, o, err)
	}
	s := Stored{Op: i, Name: fmt.Sprintf("%v of %s", o.Kind, o.Node)}
	for k, v := range o.Out {
		if v == nil || k >= len(out) || out[k] == nil {
			continue
		}
		var shown []float32
		if k < len(got) {
			shown = got[k]
		}
		f := format(v)
		if k > 0 {
			slack = nil
		}
		if (o.Kind == plan.Conv2D || o.Kind == plan.ConvBackwardData) && f == Exact && slack == nil {
			// The operand is as the library gives it, whatever it is stored in then.
			f = r.operand
		}
		follow := r.Follow

		// Rounded as an operand it must not go another way.
		if f == Exact {
			if follow /= 10; r.operand == Exact {
				follow = 0
			}
		}
		r.values[v.Root()] = s.take(f, out[k], shown, slack, follow)
	}
	r.stored = append(r.stored, s)
	return nil
}

func format(v *plan.Value) Format {
	switch root := v.Root(); {
	case root.Bytes != 2:
		return Exact
	case root.Float16:
		return Float16
	}
	return BFloat16
}

// take makes stored numbers of exact ones.
func (s *Stored) take(f Format, exact []float64, got []float32, slack []float64, follow float64) []float64 {
	var square float64
	for _, x := range exact {
		square += x * x
	}
	size := math.Sqrt(square / float64(len(exact)))
	if f == Exact {
		if got == nil {
			return exact
		}
		var off float64
		out := slices.Clone(exact)
		for k, x := range exact {
			d := math.Abs(float64(got[k]) - x)

			// A part of it was rounded before the rest was added.
			if slack != nil {
				d = max(0, d-slack[k])
			}
			if d <= follow*size {
				out[k] = float64(got[k])
			}
			off += d * d
		}
		if off != 0 {
			s.Off = max(s.Off, math.Sqrt(off/float64(len(exact)))/max(size, 1e-30))
		}
		return out
	}
	s.Numbers += len(exact)
	out := make([]float64, len(exact))
	for k, x := range exact {
		out[k] = f.Round(x)
		if got == nil || float64(got[k]) == out[k] || got[k] != got[k] && x != x {
			continue
		}
		g := float64(got[k])
		allowed := f.step(max(math.Abs(x), math.Abs(g))) / 2
		if slack != nil {
			allowed += slack[k]
		}
		beyond := (math.Abs(g-x) - allowed) / max(size, 1e-30)
		if s.Beyond = max(s.Beyond, beyond); beyond <= follow {
			out[k] = g
		} else {
			s.Others++
			if beyond != beyond || g-g != 0 {
				s.Beyond = math.Inf(1)
			}
		}
	}
	return out
}

// Stored says how the results of each op were stored.
func (r *Replay) Stored() []Stored { return slices.Clone(r.stored) }

// Worst are the ops whose stored numbers lie furthest beyond half a step, and whose results in
// float32 are furthest off.
func (r *Replay) Worst() (stored, off Stored) {
	for _, s := range r.stored {
		if s.Beyond > stored.Beyond || s.Others > 0 && stored.Others == 0 {
			stored = s
		}
		if s.Off > off.Off {
			off = s
		}
	}
	return stored, off
}

// Loss is the loss.
func (r *Replay) Loss() float64 { return r.values[r.plan.Loss.Root()][0] }

// Output are the numbers of one of the plan's outputs, gradients times Scale.
func (r *Replay) Output(v *plan.Value) ([]float64, error) { return r.numbers(v) }

// Grad is the gradient of a parameter, divided by Scale.
func (r *Replay) Grad(i int) []float64 {
	out := slices.Clone(r.values[r.plan.Grads[i].Root()])
	for k := range out {
		out[k] /= r.scale()
	}
	return out
}

// State is a batch normalisation's running mean and variance after the step.
func (r *Replay) State(name string) (mean, variance []float64) {
	s := r.states[name]
	return s.Mean.Data().([]float64), s.Var.Data().([]float64)
}

// Distance is |got − want| / |want| of all gradients together, and the largest of one parameter's
// with its name. Gradients of less than a millionth of the whole do not count by themselves: biases
// in front of a normalisation have the gradient 0.
func (r *Replay) Distance(grads [][]float32) (all, most float64, name string) {
	offs, sizes := make([]float64, len(grads)), make([]float64, len(grads))
	var off, size float64
	for i, g := range grads {
		for k, w := range r.Grad(i) {
			d := float64(g[k]) - w
			offs[i] += d * d
			sizes[i] += w * w
		}
		off, size = off+offs[i], size+sizes[i]
	}
	for i := range grads {
		if sizes[i] <= 1e-12*size {
			continue
		}
		if d := math.Sqrt(offs[i] / sizes[i]); !(d <= most) {
			most, name = d, r.plan.Params[i].Name
		}
	}
	return math.Sqrt(off / size), most, name
}
