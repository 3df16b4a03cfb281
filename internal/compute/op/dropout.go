package op

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Dropout is y = x·m/(1−Rate) in training, with m 0 at probability Rate and
// else 1, and y = x in evaluation. A NaN stays, dropped or not.
//
// The mask needs no memory: element i in row-major order of the (N,C,...) shape
// is kept at a step if Keep says so for the step's Key, a hash of Seed, Name,
// stream and step. The same seed, stream and step drop the same elements on
// every executor and in the backward pass.
//
// Arguments: x of any shape. Result: y like x.
// Gradient: dx = dy·m/(1−Rate), the same op on dy, with Backward set.
type Dropout struct {
	traits
	Rate     float64 // 0 ≤ Rate < 1
	Seed     uint64
	Name     string // unique in its graph
	Backward bool
	Mode     *Mode
}

func (o *Dropout) Arity() int    { return 1 }
func (o *Dropout) Type() hm.Type { return same(1) }
func (o *Dropout) String() string {
	return fmt.Sprintf("Dropout{%q rate %g seed %d backward %t}", o.Name, o.Rate, o.Seed, o.Backward)
}
func (o *Dropout) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Dropout) Hashcode() uint32      { return hashcode(o) }
func (o *Dropout) DiffWRT(int) []bool    { return []bool{true} }

// StateName is Name.
func (o *Dropout) StateName() string { return o.Name }

// SetTraining lets gorgonia's own machines switch the mode (gorgonia.EvalMode).
func (o *Dropout) SetTraining(training bool) error { o.Mode.Inference = !training; return nil }

func (o *Dropout) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if !(o.Rate >= 0 && o.Rate < 1) {
		return nil, fmt.Errorf("op: %v: rate is %g, want 0 ≤ rate < 1", o, o.Rate)
	}
	return likeAll(o, ds, 1)
}

// Key is the start of the masks of one step on one stream; see Mode.
func (o *Dropout) Key(step, stream uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(o.Name))
	return mix(mix(mix(mix(o.Seed)^h.Sum64())^stream) ^ step)
}

// Threshold is what DropoutKeep compares with: Rate in units of 2⁻³².
func (o *Dropout) Threshold() uint64 { return uint64(o.Rate * (1 << 32)) }

// DropoutKeep reports whether element i is kept, for a Key and a Threshold.
func DropoutKeep(key uint64, i int, threshold uint64) bool {
	return mix(key+uint64(i))>>32 >= threshold
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) after one step
// of its counter.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (o *Dropout) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, dropout[float32], dropout[float64])
}

func dropout[T float](o *Dropout, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	out, y := dense[T](shape)
	x := numbers[T](in[0])
	if o.Mode.Inference {
		copy(y, x)
		return out, nil
	}
	key, threshold, scale := o.Key(o.Mode.Step, o.Mode.Stream), o.Threshold(), T(1/(1-o.Rate))
	for i, v := range x {
		if DropoutKeep(key, i, threshold) {
			y[i] = v * scale
		} else if v != v {
			y[i] = v
		}
	}
	return out, nil
}

func (o *Dropout) SymDiff(_ gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Backward {
		return nil, fmt.Errorf("op: differentiate %v: gradient ops have no gradient of their own", o)
	}
	back := &Dropout{Rate: o.Rate, Seed: o.Seed, Name: o.Name, Backward: true, Mode: o.Mode}
	dx, err := Apply(back, grad)
	return gorgonia.Nodes{dx}, err
}
