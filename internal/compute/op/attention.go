package op

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Attention is scaled dot-product attention (Vaswani et al., 2017) of H heads, with P the softmax
// over keys:
//
//	s[b,h,i,j] = Scale·Σ_d q[b,i,h,d]·k[b,j,⌊h·Hk/H⌋,d] + bias[b,h,i,j] + slope_h·(j − (i+S−T))
//	P[b,h,i,:] = softmax(s[b,h,i,:]) over the keys that query i sees
//	o[b,i,h,d] = Σ_j P[b,h,i,j]·v[b,j,⌊h·Hk/H⌋,d]
//
// Queries are the last T of S positions: query i is at position i+S−T. With Causal it sees keys
// j ≤ i+S−T, with Lengths keys j < lengths[b], with Documents keys of its own document. A score of
// −∞ is a key that is not seen. A query that sees no key has o = 0, lse = −∞ and gradients 0. The
// bias has the sizes (B or 1, H or 1, T, S). The slopes are ALiBi's (Press et al., 2022).
//
// Dropout at Rate multiplies P by m/(1−Rate) in training, as op Dropout does; the element of the
// mask is number ((b·H+h)·T+i)·S+j of the step's Key, so that it needs no memory.
//
// Arguments: q (B,T,H,D), k and v (B,S,Hk,D), or with Packed one array (B,T,(H+2·Hk)·D) that has
// q, k and v of a position side by side, as a projection left them; then, as far as they are there,
// lengths (B), documents (B,S) and bias.
// Result: Tuple{o (B,T,H,D), or (B,T,H·D) with Packed; lse (B,H,T), the logarithm of Σ_j exp s}.
// Gradients: those of q, k, v and bias, from one AttentionGrad node.
type Attention struct {
	traits
	AttentionForm

	// Rate is that of dropout; 0 is none.
	Rate float64
	Seed uint64
	// Name is unique in its graph; it is empty without dropout.
	Name string
	Mode *Mode
}

// An AttentionForm says which attention it is.
type AttentionForm struct {
	// Heads is H, the heads of queries, and KVHeads Hk, those of keys and values. Hk divides H.
	Heads, KVHeads int

	Packed, Causal, ALiBi    bool
	Lengths, Documents, Bias bool

	// Scale multiplies the products; it is not 0.
	Scale float64
}

func (f *AttentionForm) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "heads %d of %d scale %g", f.Heads, f.KVHeads, f.Scale)
	for _, w := range []struct {
		is   bool
		word string
	}{{f.Packed, "packed"}, {f.Causal, "causal"}, {f.ALiBi, "alibi"}, {f.Lengths, "lengths"}, {f.Documents, "documents"}, {f.Bias, "bias"}} {
		if w.is {
			b.WriteString(" " + w.word)
		}
	}
	return b.String()
}

// arrays is how many arguments hold q, k and v.
func (f *AttentionForm) arrays() int {
	if f.Packed {
		return 1
	}
	return 3
}

// Arguments is the number of arguments of an Attention.
func (f *AttentionForm) Arguments() int {
	n := f.arrays()
	for _, is := range []bool{f.Lengths, f.Documents, f.Bias} {
		if is {
			n++
		}
	}
	return n
}

// Places says which arguments lengths, documents and bias are; −1 for one that is not there.
func (f *AttentionForm) Places() (lengths, documents, bias int) {
	next := f.arrays()
	place := func(is bool) int {
		if !is {
			return -1
		}
		next++
		return next - 1
	}
	return place(f.Lengths), place(f.Documents), place(f.Bias)
}

// Integers reports whether argument i is lengths or documents, which are integers.
func (f *AttentionForm) Integers(i int) bool {
	lengths, documents, _ := f.Places()
	return i >= 0 && (i == lengths || i == documents)
}

// argTypes are the types of the arguments.
func (f *AttentionForm) argTypes() []hm.Type {
	ts := []hm.Type{tensorType(4, 'a'), tensorType(4, 'a'), tensorType(4, 'a')}
	if f.Packed {
		ts = []hm.Type{tensorType(3, 'a')}
	}
	if f.Lengths {
		ts = append(ts, tensorType(1, 'i'))
	}
	if f.Documents {
		ts = append(ts, tensorType(2, 'j'))
	}
	if f.Bias {
		ts = append(ts, tensorType(4, 'a'))
	}
	return ts
}

// AttentionSizes are those of an Attention's arrays.
type AttentionSizes struct{ B, T, S, H, Hk, D int }

// Sizes gives the sizes, and an error that says which of them do not fit, for the shapes of an
// Attention's arguments.
func (f *AttentionForm) Sizes(s []tensor.Shape) (AttentionSizes, error) {
	z := AttentionSizes{H: f.Heads, Hk: f.KVHeads}
	if z.H < 1 || z.Hk < 1 || z.H%z.Hk != 0 {
		return z, fmt.Errorf("%d heads of queries over %d of keys and values, want a multiple", z.H, z.Hk)
	}
	if f.Packed {
		z.B, z.T, z.S, z.D = s[0][0], s[0][1], s[0][1], s[0][2]/(z.H+2*z.Hk)
		if z.D*(z.H+2*z.Hk) != s[0][2] {
			return z, fmt.Errorf("q, k and v together are %v, and %d numbers are no %d heads of queries and 2·%d of keys and values", s[0], s[0][2], z.H, z.Hk)
		}
	} else {
		q, k, v := s[0], s[1], s[2]
		z.B, z.T, z.S, z.D = q[0], q[1], k[1], q[3]
		if q[2] != z.H || !k.Eq(tensor.Shape{z.B, z.S, z.Hk, z.D}) || !v.Eq(k) {
			return z, fmt.Errorf("q is %v, k %v and v %v, want (B,T,%d,D), (B,S,%d,D) and the same", q, k, v, z.H, z.Hk)
		}
	}
	return z, f.checkRest(z, s)
}

func (f *AttentionForm) checkRest(z AttentionSizes, s []tensor.Shape) error {
	if z.S < z.T && (f.Causal || f.Documents || f.ALiBi) {
		return fmt.Errorf("%d queries are at the end of %d positions: there are more queries than keys", z.T, z.S)
	}
	if f.Scale == 0 || math.IsNaN(f.Scale) || math.IsInf(f.Scale, 0) {
		return fmt.Errorf("scale is %g, want a finite number that is not 0", f.Scale)
	}
	lengths, documents, bias := f.Places()
	if lengths >= 0 && s[lengths][0] != z.B {
		return fmt.Errorf("lengths are %v, want (%d), one for each example", s[lengths], z.B)
	}
	if documents >= 0 && !s[documents].Eq(tensor.Shape{z.B, z.S}) {
		return fmt.Errorf("documents are %v, want (%d,%d), one for each key", s[documents], z.B, z.S)
	}
	if bias >= 0 {
		b := s[bias]
		if b[0] != 1 && b[0] != z.B || b[1] != 1 && b[1] != z.H || b[2] != z.T || b[3] != z.S {
			return fmt.Errorf("the bias is %v, want (1 or %d, 1 or %d, %d, %d)", b, z.B, z.H, z.T, z.S)
		}
	}
	return nil
}

// infer checks the shapes of the arguments, more of which may follow, and gives that of the result.
func (f *AttentionForm) infer(o gorgonia.Op, ds []gorgonia.DimSizer, more ...int) (AttentionSizes, []tensor.Shape, tensor.Shape, error) {
	dims := []int{4, 4, 4}
	if f.Packed {
		dims = []int{3}
	}
	if f.Lengths {
		dims = append(dims, 1)
	}
	if f.Documents {
		dims = append(dims, 2)
	}
	if f.Bias {
		dims = append(dims, 4)
	}
	s, err := argShapes(o, ds, append(dims, more...)...)
	if err != nil {
		return AttentionSizes{}, nil, nil, err
	}
	z, err := f.Sizes(s)
	if err != nil {
		return z, nil, nil, fmt.Errorf("op: %v: %w", o, err)
	}
	return z, s, f.result(z), nil
}

// result is the shape of o.
func (f *AttentionForm) result(z AttentionSizes) tensor.Shape {
	if f.Packed {
		return tensor.Shape{z.B, z.T, z.H * z.D}
	}
	return tensor.Shape{z.B, z.T, z.H, z.D}
}

func (o *Attention) Arity() int { return o.Arguments() }

func (o *Attention) Type() hm.Type {
	ts := o.argTypes()
	return hm.NewFnType(append(ts, ts[0])...)
}

func (o *Attention) String() string {
	return fmt.Sprintf("Attention{%q %v rate %g seed %d}", o.Name, &o.AttentionForm, o.Rate, o.Seed)
}

func (o *Attention) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Attention) Hashcode() uint32      { return hashcode(o) }

func (o *Attention) DiffWRT(n int) []bool { return o.differentiable(n) }

// differentiable says which arguments have a gradient.
func (f *AttentionForm) differentiable(n int) []bool {
	d := make([]bool, n)
	_, _, bias := f.Places()
	for i := range d {
		d[i] = i < f.arrays() || i == bias
	}
	return d
}

// StateName is Name; one without dropout has none, and may be joined with its equal.
func (o *Attention) StateName() string { return o.Name }

// SetTraining lets gorgonia's own machines switch the mode (gorgonia.EvalMode).
func (o *Attention) SetTraining(training bool) error {
	if o.Mode != nil {
		o.Mode.Inference = !training
	}
	return nil
}

func (o *Attention) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	if !(o.Rate >= 0 && o.Rate < 1) {
		return nil, fmt.Errorf("op: %v: rate is %g, want 0 ≤ rate < 1", o, o.Rate)
	}
	_, _, y, err := o.infer(o, ds)
	return y, err
}

// Key is the start of the masks of one step on one stream; see Dropout.
func (o *Attention) Key(step, stream uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(o.Name))
	return mix(mix(mix(mix(o.Seed)^h.Sum64())^stream) ^ step)
}

// Threshold is what DropoutKeep compares with: Rate in units of 2⁻³².
func (o *Attention) Threshold() uint64 { return uint64(o.Rate * (1 << 32)) }

func (o *Attention) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, attention[float32], attention[float64])
}

func attention[T float](o *Attention, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	a, err := newAttending[T](o, &o.AttentionForm, in)
	if err != nil {
		return nil, err
	}
	a.drop(o)
	yt, y := dense[T](shape)
	lt, lse := dense[T](tensor.Shape{a.B, a.H, a.T})
	for b := range a.B {
		for h := range a.H {
			for i := range a.T {
				lse[(b*a.H+h)*a.T+i] = a.forward(y, b, h, i)
			}
		}
	}
	return &Tuple{Values: []*tensor.Dense{yt, lt}}, nil
}

func (o *Attention) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&AttentionGrad{Forward: o}, append(append(gorgonia.Nodes{}, in...), out, grad)...)
	if err != nil {
		return nil, err
	}
	grads := make(gorgonia.Nodes, len(in))
	next := 0
	for i, has := range o.differentiable(len(in)) {
		if !has {
			continue
		}
		if grads[i], err = take(d, next, in[i].Shape()); err != nil {
			return nil, err
		}
		next++
	}
	return grads, nil
}

// AttentionGrad is the backward pass of an Attention, with Δ[b,h,i] = Σ_d do[b,i,h,d]·o[b,i,h,d]
// and m the mask of dropout, or 1 without:
//
//	dP[i,j] = m[i,j]/(1−Rate)·Σ_d do[i,d]·v[j,d];  dS[i,j] = P[i,j]·(dP[i,j] − Δ[i])
//	dq[i] = Scale·Σ_j dS[i,j]·k[j];  dk[j] = Scale·Σ_i dS[i,j]·q[i];  dv[j] = Σ_i P[i,j]·m[i,j]/(1−Rate)·do[i]
//	dbias[i,j] = dS[i,j], summed over what it was broadcast on
//
// dk and dv are sums over the heads of queries that share a head of keys.
//
// Arguments: those of the Attention, its node's Tuple, do like o.
// Result: Tuple{dq, dk, dv} like q, k, v, or one array with Packed; and dbias if there is a bias.
type AttentionGrad struct {
	gradient
	Forward *Attention
}

func (o *AttentionGrad) Arity() int { return o.Forward.Arguments() + 2 }

func (o *AttentionGrad) Type() hm.Type {
	ts := o.Forward.argTypes()
	return hm.NewFnType(append(ts, ts[0], ts[0], ts[0])...)
}

func (o *AttentionGrad) String() string        { return fmt.Sprintf("AttentionGrad{%v}", o.Forward) }
func (o *AttentionGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *AttentionGrad) Hashcode() uint32      { return hashcode(o) }

func (o *AttentionGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	dims := 4
	if o.Forward.Packed {
		dims = 3
	}
	_, s, y, err := o.Forward.infer(o, ds, dims, dims)
	if err != nil {
		return nil, err
	}
	if n := len(s); !s[n-2].Eq(y) || !s[n-1].Eq(y) {
		return nil, fmt.Errorf("op: %v: o is %v and do %v, want %v", o, s[n-2], s[n-1], y)
	}
	return s[0].Clone(), nil
}

func (o *AttentionGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, attentionGrad[float32], attentionGrad[float64])
}

func attentionGrad[T float](o *AttentionGrad, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	n := len(in)
	saved, ok := in[n-2].(*Tuple)
	if !ok || len(saved.Values) != 2 {
		return nil, fmt.Errorf("op: do %v: argument %d is %T, want the Tuple of an Attention", o, n-2, in[n-2])
	}
	f := o.Forward
	a, err := newAttending[T](o, &f.AttentionForm, in[:n-2])
	if err != nil {
		return nil, err
	}
	a.drop(f)
	out := &Tuple{}
	grads := make([][]T, 0, 4)
	for i, has := range f.differentiable(n - 2) {
		if has {
			t, d := dense[T](in[i].Shape())
			out.Values, grads = append(out.Values, t), append(grads, d)
		}
	}
	dq, dk, dv := a.view(grads[0], 0), a.view(grads[0], 1), a.view(grads[0], 2)
	if !f.Packed {
		dk, dv = a.view(grads[1], 1), a.view(grads[2], 2)
	}
	var dbias []T
	if f.Bias {
		dbias = grads[len(grads)-1]
	}
	y, lse, dy := numbers[T](saved.Values[0]), numbers[T](saved.Values[1]), numbers[T](in[n-1])
	for b := range a.B {
		for h := range a.H {
			for i := range a.T {
				a.backward(dq, dk, dv, dbias, y, dy, lse[(b*a.H+h)*a.T+i], b, h, i)
			}
		}
	}
	return out, nil
}
