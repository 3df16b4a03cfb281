package op

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// heads are those of q, k or v in an array: head h of position t of example b begins at
// data[b·example + t·position + h·D].
type heads[T float] struct {
	data              []T
	example, position int
	d                 int
}

func (x heads[T]) at(b, t, h int) []T {
	at := b*x.example + t*x.position + h*x.d
	return x.data[at : at+x.d]
}

// attending is the arguments of an Attention under way, in plain loops.
type attending[T float] struct {
	AttentionSizes
	form      *AttentionForm
	q, k, v   heads[T]
	lengths   []int
	documents []int
	slopes    []float64

	// bias has biasB examples and biasH heads.
	bias         []T
	biasB, biasH int

	// dropping says that there is dropout, from key by threshold; what is kept is multiplied by keep.
	dropping       bool
	key, threshold uint64
	keep           T

	// scores are those of a query, and probabilities.
	scores []T
}

func newAttending[T float](o gorgonia.Op, f *AttentionForm, in []gorgonia.Value) (*attending[T], error) {
	shapes := make([]tensor.Shape, len(in))
	for i, v := range in {
		shapes[i] = v.Shape()
	}
	z, err := f.Sizes(shapes)
	if err != nil {
		return nil, fmt.Errorf("op: do %v: %w", o, err)
	}
	a := &attending[T]{AttentionSizes: z, form: f, keep: 1, scores: make([]T, z.S)}
	a.q = a.view(numbers[T](in[0]), 0)
	if f.Packed {
		a.k, a.v = a.view(numbers[T](in[0]), 1), a.view(numbers[T](in[0]), 2)
	} else {
		a.k, a.v = a.view(numbers[T](in[1]), 1), a.view(numbers[T](in[2]), 2)
	}
	lengths, documents, bias := f.Places()
	if lengths >= 0 {
		if a.lengths, err = attentionLengths(o, in[lengths], z.S); err != nil {
			return nil, err
		}
	}
	if documents >= 0 {
		if a.documents, err = Indices(in[documents]); err != nil {
			return nil, err
		}
	}
	if bias >= 0 {
		a.bias, a.biasB, a.biasH = numbers[T](in[bias]), shapes[bias][0], shapes[bias][1]
	}
	if f.ALiBi {
		a.slopes = ALiBiSlopes(z.H)
	}
	return a, nil
}

// attentionLengths reads lengths, which are 0 to keys.
func attentionLengths(o gorgonia.Op, v gorgonia.Value, keys int) ([]int, error) {
	lengths, err := Indices(v)
	if err != nil {
		return nil, err
	}
	for i, n := range lengths {
		if n < 0 || n > keys {
			return nil, fmt.Errorf("op: do %v: length %d of example %d, want 0 to %d", o, n, i, keys)
		}
	}
	return lengths, nil
}

// view is q (0), k (1) or v (2) in an array of its own, or with Packed in the array of all.
func (a *attending[T]) view(data []T, which int) heads[T] {
	if a.form.Packed {
		width := (a.H + 2*a.Hk) * a.D
		first := []int{0, a.H * a.D, (a.H + a.Hk) * a.D}[which]
		return heads[T]{data: data[first:], example: a.T * width, position: width, d: a.D}
	}
	n, h := a.S, a.Hk
	if which == 0 {
		n, h = a.T, a.H
	}
	return heads[T]{data: data, example: n * h * a.D, position: h * a.D, d: a.D}
}

// drop takes over an op's dropout.
func (a *attending[T]) drop(o *Attention) {
	if o.Rate == 0 || o.Mode.Inference {
		return
	}
	a.dropping, a.key, a.threshold = true, o.Key(o.Mode.Step, o.Mode.Stream), o.Threshold()
	a.keep = T(1 / (1 - o.Rate))
}

// mask is what dropout multiplies an element of P by.
func (a *attending[T]) mask(b, h, i, j int) T {
	if a.dropping && !DropoutKeep(a.key, ((b*a.H+h)*a.T+i)*a.S+j, a.threshold) {
		return 0
	}
	return a.keep
}

// sees reports whether query i of example b sees key j.
func (a *attending[T]) sees(b, i, j int) bool {
	at := i + a.S - a.T
	switch {
	case a.form.Causal && j > at:
		return false
	case a.lengths != nil && j >= a.lengths[b]:
		return false
	case a.documents != nil && a.documents[b*a.S+j] != a.documents[b*a.S+at]:
		return false
	}
	return true
}

// score is that of query i for key j, −∞ if it does not see it.
func (a *attending[T]) score(b, h, i, j int) T {
	if !a.sees(b, i, j) {
		return T(math.Inf(-1))
	}
	var sum T
	k := a.k.at(b, j, h*a.Hk/a.H)
	for d, q := range a.q.at(b, i, h) {
		sum += q * k[d]
	}
	sum *= T(a.form.Scale)
	if a.bias != nil {
		sum += a.bias[a.biasAt(b, h, i, j)]
	}
	if a.slopes != nil {
		sum += T(a.slopes[h] * float64(j-i-a.S+a.T))
	}
	return sum
}

func (a *attending[T]) biasAt(b, h, i, j int) int {
	return ((b%a.biasB*a.biasH+h%a.biasH)*a.T+i)*a.S + j
}

// forward computes the result of query i, and returns its lse.
func (a *attending[T]) forward(y []T, b, h, i int) T {
	none := T(math.Inf(-1))
	most := none
	for j := range a.scores {
		a.scores[j] = a.score(b, h, i, j)
		if !(a.scores[j] <= most) {
			most = a.scores[j]
		}
	}
	if most == none {
		return none
	}
	var sum T
	for j, s := range a.scores {
		a.scores[j] = T(math.Exp(float64(s - most)))
		sum += a.scores[j]
	}
	o := a.result(y, b, h, i)
	for j, p := range a.scores {
		if p == 0 {
			continue
		}
		p *= a.mask(b, h, i, j) / sum
		for d, v := range a.v.at(b, j, h*a.Hk/a.H) {
			o[d] += p * v
		}
	}
	return most + T(math.Log(float64(sum)))
}

// result is query i's part of y, which lies the same with and without Packed.
func (a *attending[T]) result(y []T, b, h, i int) []T {
	at := ((b*a.T+i)*a.H + h) * a.D
	return y[at : at+a.D]
}

// backward adds query i's part to the gradients.
func (a *attending[T]) backward(dq, dk, dv heads[T], dbias, y, dy []T, lse T, b, h, i int) {
	if math.IsInf(float64(lse), -1) {
		return
	}
	g := h * a.Hk / a.H
	do, scale := a.result(dy, b, h, i), T(a.form.Scale)
	var delta T
	for d, o := range a.result(y, b, h, i) {
		delta += do[d] * o
	}
	for j := range a.scores {
		s := a.score(b, h, i, j)
		if math.IsInf(float64(s), -1) {
			continue
		}
		p, m := T(math.Exp(float64(s-lse))), a.mask(b, h, i, j)
		var dp T
		for d, v := range a.v.at(b, j, g) {
			dp += do[d] * v
			dv.at(b, j, g)[d] += p * m * do[d]
		}
		ds := p * (dp*m - delta)
		if dbias != nil {
			dbias[a.biasAt(b, h, i, j)] += ds
		}
		q, k := a.q.at(b, i, h), a.k.at(b, j, g)
		for d := range q {
			dq.at(b, i, h)[d] += scale * ds * k[d]
			dk.at(b, j, g)[d] += scale * ds * q[d]
		}
	}
}

// ALiBiSlopes are the slopes of n heads (Press et al., 2022): 2^(−8i/n), i = 1 to n, for a power of
// two; else those of the largest power of two below n, and then every other one of twice as many.
func ALiBiSlopes(n int) []float64 {
	power := 1
	for 2*power <= n {
		power *= 2
	}
	slopes := make([]float64, n)
	for i := range slopes {
		if i < power {
			slopes[i] = math.Exp2(-8 * float64(i+1) / float64(power))
		} else {
			slopes[i] = math.Exp2(-8 * float64(2*(i-power)+1) / float64(2*power))
		}
	}
	return slopes
}
