package data

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSyntheticDependsOnSeedAndIndexOnly(t *testing.T) {
	long, short, other := Synthetic(200, 3), Synthetic(50, 3), Synthetic(50, 4)
	if !bytes.Equal(long.Head(50).pixels, short.pixels) || !bytes.Equal(long.Head(50).labels, short.labels) {
		t.Error("the first 50 of 200: want the set of 50")
	}
	if bytes.Equal(short.pixels, other.pixels) {
		t.Error("another seed: want other images")
	}
	var counts [10]int
	for i := range long.Len() {
		counts[long.Label(i)]++
	}
	if counts != [10]int{20, 20, 20, 20, 20, 20, 20, 20, 20, 20} {
		t.Errorf("images of each class: got %v, want 20 of each", counts)
	}
}

// A linear model sees little of the classes; one that looks through small
// filters sees much more.
func TestSyntheticIsLearntThroughFiltersAndNotByALinearModel(t *testing.T) {
	train, test := Synthetic(1500, 1), Synthetic(500, 2)
	raw := func(set *ImageSet, i int) []float32 {
		x := make([]float32, 3072)
		for k, p := range set.Pixels(i) {
			x[k] = float32(p)/128 - 1
		}
		return x
	}
	linear := softmaxAccuracy(train.Head(800), test, raw, 0.003, 3)
	filters := randomFilters(40)
	deep := softmaxAccuracy(train, test, func(set *ImageSet, i int) []float32 { return filters.features(raw(set, i)) }, 0.05, 15)
	t.Logf("linear %.3f, filters %.3f", linear, deep)
	if linear > 0.45 {
		t.Errorf("linear model: got accuracy %.3f, want at most 0.45", linear)
	}
	if deep < linear+0.1 {
		t.Errorf("random filters: got accuracy %.3f, want at least 0.1 above the linear model's %.3f", deep, linear)
	}
}

// softmaxAccuracy trains a softmax regression on features and returns its
// accuracy on the test set.
func softmaxAccuracy(train, test *ImageSet, features func(*ImageSet, int) []float32, rate float32, epochs int) float64 {
	var x [][]float32
	for i := range train.Len() {
		x = append(x, features(train, i))
	}
	n := len(x[0])
	w := make([]float32, 10*(n+1))
	r := rand.New(rand.NewPCG(1, 1))
	for range epochs {
		for _, i := range r.Perm(len(x)) {
			learn(w, x[i], train.Label(i), rate)
		}
	}
	right := 0
	for i := range test.Len() {
		p := logits(w, features(test, i))
		best := 0
		for c := range p {
			if p[c] > p[best] {
				best = c
			}
		}
		if best == test.Label(i) {
			right++
		}
	}
	return float64(right) / float64(test.Len())
}

// logits are the probabilities of the classes. As in the other loops over numbers here, nothing
// else runs meanwhile, and the race detector would take most of the time.
//
//go:norace
func logits(w, x []float32) (p [10]float64) {
	n := len(x)
	sum, largest := 0.0, math.Inf(-1)
	for c := range p {
		row := w[c*(n+1) : (c+1)*(n+1)]
		z := row[n]
		for k, v := range x {
			z += row[k] * v
		}
		p[c] = float64(z)
		largest = max(largest, p[c])
	}
	for c := range p {
		p[c] = math.Exp(p[c] - largest)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// learn makes one step on an example.
//
//go:norace
func learn(w, x []float32, label int, rate float32) {
	n := len(x)
	p := logits(w, x)
	p[label]--
	for c := range p {
		row, step := w[c*(n+1):(c+1)*(n+1)], rate*float32(p[c])
		for k, v := range x {
			row[k] -= step * v
		}
		row[n] -= step
	}
}

// filters are random 5×5 filters over brightness; a feature is the mean of
// their absolute answers over the image.
type filters [][25]float32

func randomFilters(n int) filters {
	r := rand.New(rand.NewPCG(5, 5))
	f := make(filters, n)
	for i := range f {
		mean := float32(0)
		for k := range f[i] {
			f[i][k] = float32(r.NormFloat64())
			mean += f[i][k] / 25
		}
		for k := range f[i] {
			f[i][k] -= mean
		}
	}
	return f
}

//go:norace
func (f filters) features(x []float32) []float32 {
	grey := make([]float32, 1024)
	for i := range grey {
		grey[i] = x[i] + x[1024+i] + x[2048+i]
	}
	out := make([]float32, 2*len(f))
	for i := range f {
		for y := 0; y+5 <= 32; y += 2 {
			for at := y * 32; at+5 <= y*32+32; at += 2 {
				z := float32(0)
				for k, v := range f[i] {
					z += v * grey[at+k/5*32+k%5]
				}
				out[2*i] += float32(math.Abs(float64(z))) / 200
				out[2*i+1] += z * z / 4000
			}
		}
	}
	return out
}
