package op

import (
	"fmt"
	"hash"
	"strings"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Recurrent is one layer and direction of an LSTM (Hochreiter and Schmidhuber, 1997, with the forget
// gate of Gers and others, 2000) or, with GRU, of a gated recurrent unit (Cho and others, 2014) as
// PyTorch has it. Its argument z has the input's side of the gates of all steps, z = x·W_ihᵀ + b. With
// σ the logistic function and h₋, c₋ the states of the step before:
//
//	LSTM, rows i, f, g, o:  a = z[t] + W·h₋
//	  c = σ(a_f)·c₋ + σ(a_i)·tanh(a_g);  h = σ(a_o)·tanh(c)
//	GRU, rows r, u, n:  a = W·h₋ + b
//	  r = σ(z_r+a_r);  u = σ(z_u+a_u);  n = tanh(z_n + r·a_n);  h = (1−u)·n + u·h₋
//
// PyTorch's documentation calls u z. The state begins at h0 and c0, or at 0. With Lengths example k
// has the steps up to, without, lengths[k]; it has no others. Reverse takes the steps from the last to
// the first.
//
// Arguments: z (B,T,G·H), with G = 4 gates of an LSTM and 3 of a GRU; w (G·H,H); then, as far as they
// are there, b (3·H), h0 (B,H), c0 (B,H) and lengths (B). A GRU may have b, an LSTM c0.
// Result: Tuple{s, gates (B,T,G·H), kept (B,T,H), before (B,T,H)}. s is (B,T+2,H), or (B,T+1,H) of a
// GRU: h of each step, 0 where there is none, then the last h and the last c. The others are for the
// gradient: σ and tanh of a, an LSTM's c or a GRU's a_n, and h₋.
// Gradients: those of all but lengths, from one RecurrentGrad node.
type Recurrent struct {
	traits
	RecurrentForm
}

// A RecurrentForm says which recurrent layer it is, and which arguments it has.
type RecurrentForm struct {
	GRU, Reverse          bool
	Bias, H0, C0, Lengths bool
}

func (f *RecurrentForm) String() string {
	var b strings.Builder
	b.WriteString("LSTM")
	if f.GRU {
		b.Reset()
		b.WriteString("GRU")
	}
	for _, w := range []struct {
		is   bool
		word string
	}{{f.Reverse, "reverse"}, {f.Bias, "bias"}, {f.H0, "h0"}, {f.C0, "c0"}, {f.Lengths, "lengths"}} {
		if w.is {
			b.WriteString(" " + w.word)
		}
	}
	return b.String()
}

// Gates is G, the rows of W for each number of the state.
func (f *RecurrentForm) Gates() int {
	if f.GRU {
		return 3
	}
	return 4
}

// States is how many states there are, h and an LSTM's c.
func (f *RecurrentForm) States() int { return f.Gates() - 2 }

// Arguments is the number of arguments of a Recurrent.
func (f *RecurrentForm) Arguments() int {
	n := 2
	for _, is := range []bool{f.Bias, f.H0, f.C0, f.Lengths} {
		if is {
			n++
		}
	}
	return n
}

// Places says which arguments b, h0, c0 and lengths are; −1 for one that is not there.
func (f *RecurrentForm) Places() (bias, h0, c0, lengths int) {
	next := 2
	place := func(is bool) int {
		if !is {
			return -1
		}
		next++
		return next - 1
	}
	return place(f.Bias), place(f.H0), place(f.C0), place(f.Lengths)
}

// Integers reports whether argument i is lengths, which are integers.
func (f *RecurrentForm) Integers(i int) bool { return f.Lengths && i == f.Arguments()-1 }

// argTypes are the types of the arguments.
func (f *RecurrentForm) argTypes() []hm.Type {
	ts := []hm.Type{tensorType(3, 'a'), tensorType(2, 'a')}
	if f.Bias {
		ts = append(ts, tensorType(1, 'a'))
	}
	for _, is := range []bool{f.H0, f.C0} {
		if is {
			ts = append(ts, tensorType(2, 'a'))
		}
	}
	if f.Lengths {
		ts = append(ts, tensorType(1, 'i'))
	}
	return ts
}

// RecurrentSizes are those of a Recurrent's arrays: B examples of T steps and a state of H numbers.
type RecurrentSizes struct{ B, T, H int }

// infer checks the shapes of the arguments, more of which may follow.
func (f *RecurrentForm) infer(o gorgonia.Op, ds []gorgonia.DimSizer, more ...int) (RecurrentSizes, []tensor.Shape, error) {
	dims := []int{3, 2}
	if f.Bias {
		dims = append(dims, 1)
	}
	for _, is := range []bool{f.H0, f.C0} {
		if is {
			dims = append(dims, 2)
		}
	}
	if f.Lengths {
		dims = append(dims, 1)
	}
	s, err := argShapes(o, ds, append(dims, more...)...)
	if err != nil {
		return RecurrentSizes{}, nil, err
	}
	z, err := f.Sizes(s)
	if err != nil {
		return z, nil, fmt.Errorf("op: %v: %w", o, err)
	}
	return z, s, nil
}

// Sizes gives the sizes, and an error that says which of them do not fit, for the shapes of a
// Recurrent's arguments.
func (f *RecurrentForm) Sizes(s []tensor.Shape) (RecurrentSizes, error) {
	g := f.Gates()
	z := RecurrentSizes{B: s[0][0], T: s[0][1], H: s[1][1]}
	if f.GRU && f.C0 || !f.GRU && f.Bias {
		return z, fmt.Errorf("a GRU has no c, and the bias of an LSTM is in z")
	}
	if s[0][2] != g*z.H || s[1][0] != g*z.H {
		return z, fmt.Errorf("z is %v and w %v, want (B,T,%d·H) and (%d·H,H)", s[0], s[1], g, g)
	}
	bias, h0, c0, lengths := f.Places()
	if bias >= 0 && s[bias][0] != g*z.H {
		return z, fmt.Errorf("the bias is %v, want (%d)", s[bias], g*z.H)
	}
	for _, i := range []int{h0, c0} {
		if i >= 0 && !s[i].Eq(tensor.Shape{z.B, z.H}) {
			return z, fmt.Errorf("a first state is %v, want (%d,%d)", s[i], z.B, z.H)
		}
	}
	if lengths >= 0 && s[lengths][0] != z.B {
		return z, fmt.Errorf("lengths are %v, want (%d), one for each example", s[lengths], z.B)
	}
	return z, nil
}

// Result is the shape of s.
func (f *RecurrentForm) Result(z RecurrentSizes) tensor.Shape {
	return tensor.Shape{z.B, z.T + f.States(), z.H}
}

// Saved are the shapes of gates, kept and before.
func (f *RecurrentForm) Saved(z RecurrentSizes) []tensor.Shape {
	return []tensor.Shape{{z.B, z.T, f.Gates() * z.H}, {z.B, z.T, z.H}, {z.B, z.T, z.H}}
}

// Length checks the length of example b of T steps.
func (z RecurrentSizes) Length(b, n int) error {
	if n < 0 || n > z.T {
		return fmt.Errorf("length %d of example %d, want 0 to %d", n, b, z.T)
	}
	return nil
}

func (o *Recurrent) Arity() int { return o.Arguments() }

func (o *Recurrent) Type() hm.Type {
	ts := o.argTypes()
	return hm.NewFnType(append(ts, ts[0])...)
}

func (o *Recurrent) String() string        { return fmt.Sprintf("Recurrent{%v}", &o.RecurrentForm) }
func (o *Recurrent) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *Recurrent) Hashcode() uint32      { return hashcode(o) }
func (o *Recurrent) DiffWRT(n int) []bool  { return o.differentiable(n) }

// differentiable says which arguments have a gradient: all but lengths, which are the last.
func (f *RecurrentForm) differentiable(n int) []bool {
	d := allTrue(n)
	if f.Lengths && n > 0 {
		d[n-1] = false
	}
	return d
}

func (o *Recurrent) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	z, _, err := o.infer(o, ds)
	if err != nil {
		return nil, err
	}
	return o.Result(z), nil
}

func (o *Recurrent) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, recurrent[float32], recurrent[float64])
}

func recurrent[T float](o *Recurrent, in []gorgonia.Value, shape tensor.Shape) (gorgonia.Value, error) {
	r, err := newRecurring[T](&o.RecurrentForm, in)
	if err != nil {
		return nil, fmt.Errorf("op: do %v: %w", o, err)
	}
	out := &Tuple{}
	arrays := make([][]T, 0, 4)
	for _, s := range append([]tensor.Shape{shape}, o.Saved(r.RecurrentSizes)...) {
		t, d := dense[T](s)
		out.Values, arrays = append(out.Values, t), append(arrays, d)
	}
	r.s, r.gates, r.kept, r.before = arrays[0], arrays[1], arrays[2], arrays[3]
	for b := range r.B {
		r.forward(b)
	}
	return out, nil
}

func (o *Recurrent) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	d, err := Apply(&RecurrentGrad{RecurrentForm: o.RecurrentForm}, append(append(gorgonia.Nodes{}, in...), out, grad)...)
	if err != nil {
		return nil, err
	}
	grads := make(gorgonia.Nodes, len(in))
	for i, has := range o.differentiable(len(in)) {
		if !has {
			continue
		}
		if grads[i], err = take(d, i, in[i].Shape()); err != nil {
			return nil, err
		}
	}
	return grads, nil
}

// RecurrentGrad is the backward pass of a Recurrent. With dh and dc those of the results and of the
// step behind, gates as activated and m = a_n:
//
//	LSTM:  dc += dh·o·(1−tanh²c);  dc₋ = dc·f
//	  da = [dc·g·i(1−i), dc·c₋·f(1−f), dc·i·(1−g²), dh·tanh(c)·o(1−o)];  dz = da
//	GRU:  dn = dh·(1−u)·(1−n²);  dr = dn·m·r(1−r);  du = dh·(h₋−n)·u(1−u)
//	  dz = [dr, du, dn];  da = [dr, du, dn·r]
//	dh₋ = da·W, and dh·u of a GRU;  dW = Σ daᵀ·h₋;  db = Σ da
//
// dz of a step that an example does not have is 0.
//
// Arguments: those of the Recurrent, its node's Tuple, ds like s.
// Result: Tuple of the gradients of z, w and, as far as they are there, b, h0 and c0.
type RecurrentGrad struct {
	gradient
	RecurrentForm
}

func (o *RecurrentGrad) Arity() int { return o.Arguments() + 2 }

func (o *RecurrentGrad) Type() hm.Type {
	ts := o.argTypes()
	return hm.NewFnType(append(ts, ts[0], ts[0], ts[0])...)
}

func (o *RecurrentGrad) String() string        { return fmt.Sprintf("RecurrentGrad{%v}", &o.RecurrentForm) }
func (o *RecurrentGrad) WriteHash(h hash.Hash) { writeHash(h, o) }
func (o *RecurrentGrad) Hashcode() uint32      { return hashcode(o) }

func (o *RecurrentGrad) InferShape(ds ...gorgonia.DimSizer) (tensor.Shape, error) {
	z, s, err := o.infer(o, ds, 3, 3)
	if err != nil {
		return nil, err
	}
	if n, want := len(s), o.Result(z); !s[n-2].Eq(want) || !s[n-1].Eq(want) {
		return nil, fmt.Errorf("op: %v: s is %v and ds %v, want %v", o, s[n-2], s[n-1], want)
	}
	return s[0].Clone(), nil
}

func (o *RecurrentGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return run(o, 0, in, recurrentGrad[float32], recurrentGrad[float64])
}

func recurrentGrad[T float](o *RecurrentGrad, in []gorgonia.Value, _ tensor.Shape) (gorgonia.Value, error) {
	n := o.Arguments()
	saved, ok := in[n].(*Tuple)
	if !ok || len(saved.Values) != 4 {
		return nil, fmt.Errorf("op: do %v: argument %d is %T, want the Tuple of a Recurrent", o, n, in[n])
	}
	r, err := newRecurring[T](&o.RecurrentForm, in[:n])
	if err != nil {
		return nil, fmt.Errorf("op: do %v: %w", o, err)
	}
	r.gates, r.kept, r.before = numbers[T](saved.Values[1]), numbers[T](saved.Values[2]), numbers[T](saved.Values[3])
	r.ds = numbers[T](in[n+1])
	out := &Tuple{}
	grads := make([][]T, n)
	for i, has := range o.differentiable(n) {
		if has {
			t, d := dense[T](in[i].Shape())
			out.Values, grads[i] = append(out.Values, t), d
		}
	}
	bias, h0, c0, _ := o.Places()
	for b := range r.B {
		dh, dc := r.backward(b, grads[0], grads[1], placed(grads, bias))
		copy(r.row(placed(grads, h0), b), dh)
		copy(r.row(placed(grads, c0), b), dc)
	}
	return out, nil
}

// placed is element i of x; nil for −1.
func placed[T float](x [][]T, i int) []T {
	if i < 0 {
		return nil
	}
	return x[i]
}
