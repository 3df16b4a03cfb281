package data_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data"
)

// numbered is a data set whose examples are one pixel, their number, of a class.
type numbered struct{ labels []int }

func (n numbered) Len() int          { return len(n.labels) }
func (n numbered) Shape() data.Shape { return data.Shape{Channels: 1, Height: 1, Width: 1} }
func (n numbered) Read(i int, dst []uint8) (int, error) {
	dst[0] = uint8(i)
	return n.labels[i], nil
}

// drawing is one that reads with random numbers and has two labels.
type drawing struct{ numbered }

func (drawing) LabelWidth() int { return 2 }
func (d drawing) ReadExample(_ context.Context, i int, e *data.Example) error {
	e.Label, e.Pixels[0] = d.labels[i], uint8(i)
	e.Labels[0], e.Labels[1] = float32(i), e.Draw.Float32()
	return nil
}

func (drawing) Fingerprint() string { return "f" }
func (drawing) Decoder() string     { return "d" }
func (drawing) Classes() []string   { return []string{"a", "b"} }

func weigh(t *testing.T, d data.Dataset, weights []float64, draws int) data.Dataset {
	t.Helper()
	w, err := data.Weighted(d, weights, draws)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drawn returns the pixels, which are numbers of examples, of all draws of an epoch.
func drawn(t *testing.T, d data.Dataset, cfg data.LoaderConfig) (all []int) {
	t.Helper()
	cfg.BatchSize, cfg.Raw = 16, true
	order := func(yield func(int) bool) {
		for k := 0; k < d.Len() && yield(k); k++ {
		}
	}
	l, err := data.NewLoader(d, order, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for len(all) < d.Len() {
		b, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for k := range b.N {
			all = append(all, int(b.Pixels[k]))
		}
	}
	return all
}

// Examples come as often as their weights say, with the deviations of chance; without a weight
// never.
func TestWeightedDrawsByTheWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 50, 200} {
		weights, sum := make([]float64, n), 0.0
		for i := range weights {
			if weights[i] = math.Exp(3 * r.NormFloat64()); i > 0 && r.IntN(4) == 0 {
				weights[i] = 0
			}
			sum += weights[i]
		}
		const draws = 20_000
		counts := make([]float64, n)
		for _, i := range drawn(t, weigh(t, numbered{make([]int, n)}, weights, draws), data.LoaderConfig{Seed: 3}) {
			counts[i]++
		}
		for i, w := range weights {
			want := draws * w / sum
			σ := math.Sqrt(want * (1 - w/sum))
			if math.Abs(counts[i]-want) > 5*σ+1 || w == 0 && counts[i] > 0 {
				t.Errorf("%d examples: %d with weight %.4f of %.4f was drawn %v times of %d, want %.1f ± %.1f", n, i, w, sum, counts[i], draws, want, σ)
			}
		}
	}
}

// A table whose shares cannot be written exactly does not fill its last column with an example that
// must not come.
func TestAnExampleWithoutAWeightIsNeverDrawn(t *testing.T) {
	for n := 2; n < 60; n++ {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = float64(i%3) / 10
		}
		for k, i := range drawn(t, weigh(t, numbered{make([]int, n)}, weights, 2000), data.LoaderConfig{}) {
			if weights[i] == 0 {
				t.Fatalf("%d examples: draw %d is example %d, whose weight is 0", n, k, i)
			}
		}
	}
}

// The draws depend on seed and epoch, and not on how many read.
func TestWeightedDrawsRepeat(t *testing.T) {
	set := weigh(t, numbered{make([]int, 100)}, slices.Repeat([]float64{1}, 100), 300)
	first := drawn(t, set, data.LoaderConfig{Seed: 1, Epoch: 2, Readers: 1})
	if again := drawn(t, set, data.LoaderConfig{Seed: 1, Epoch: 2, Readers: 5}); !slices.Equal(again, first) {
		t.Error("five readers draw other examples than one")
	}
	for what, other := range map[string][]int{
		"seed": drawn(t, set, data.LoaderConfig{Seed: 2, Epoch: 2}), "epoch": drawn(t, set, data.LoaderConfig{Seed: 1, Epoch: 3}),
	} {
		same := 0
		for k := range first {
			if first[k] == other[k] {
				same++
			}
		}
		if same > 15 { // 3 by chance
			t.Errorf("another %s: %d of 300 draws are the same, want about 3", what, same)
		}
	}
	still := drawn(t, set, data.LoaderConfig{Seed: 1, Epoch: 2, Still: true})
	for k, i := range drawn(t, set, data.LoaderConfig{Seed: 9, Epoch: 9, Still: true}) {
		var pixel [1]uint8
		if _, err := set.Read(k, pixel[:]); err != nil || i != still[k] || int(pixel[0]) != i {
			t.Fatalf("draw %d without random numbers: examples %d and %d, Read says %d, %v; want the same", k, i, still[k], pixel[0], err)
		}
	}
}

// An example that comes twice in an epoch has other random numbers each time.
func TestRepeatsOfAnExampleAreReadDifferently(t *testing.T) {
	set := weigh(t, drawing{numbered{[]int{0, 1}}}, []float64{1, 1}, 40).(data.ExampleReader)
	if set.LabelWidth() != 2 {
		t.Errorf("got %d labels, want the 2 of the data set", set.LabelWidth())
	}
	seen := map[[2]float32]bool{}
	for k := range 40 {
		e := data.Example{Pixels: make([]uint8, 1), Labels: make([]float32, 2), Draw: rand.New(rand.NewPCG(5, uint64(k)))}
		if err := set.ReadExample(t.Context(), k, &e); err != nil {
			t.Fatal(err)
		}
		if e.Label != int(e.Pixels[0]) || seen[[2]float32(e.Labels)] {
			t.Errorf("draw %d: label %d of example %d, random number %v, want another one each time", k, e.Label, e.Pixels[0], e.Labels)
		}
		seen[[2]float32(e.Labels)] = true
	}
}

// All classes come equally often, however many examples they have; what has no class does not come.
func TestClassWeightsBalanceTheClasses(t *testing.T) {
	labels := slices.Concat(slices.Repeat([]int{0}, 150), slices.Repeat([]int{1}, 30), []int{2, -1, -1})
	const draws = 9000
	counts := map[int]int{}
	for _, i := range drawn(t, weigh(t, numbered{labels}, data.ClassWeights(labels), draws), data.LoaderConfig{Seed: 4}) {
		counts[labels[i]]++
	}
	σ := math.Sqrt(draws * (1.0 / 3) * (2.0 / 3))
	for class := range 3 {
		if math.Abs(float64(counts[class])-draws/3) > 5*σ {
			t.Errorf("class %d was drawn %d times of %d, want %d ± %.0f", class, counts[class], draws, draws/3, σ)
		}
	}
	if counts[-1] > 0 {
		t.Errorf("examples without a class were drawn %d times, want never", counts[-1])
	}
}

// What is known of the data is known of the draws; other weights are other data.
func TestWeightedSaysWhatItsDataIs(t *testing.T) {
	type described interface {
		Fingerprint() string
		Decoder() string
		Classes() []string
	}
	of := func(d data.Dataset, weights ...float64) described { return weigh(t, d, weights, 5).(described) }
	a, b := of(drawing{numbered{[]int{0, 1}}}, 1, 1), of(drawing{numbered{[]int{0, 1}}}, 1, 2)
	if a.Fingerprint() == b.Fingerprint() || !strings.HasPrefix(a.Fingerprint(), "f, 5 draws") || a.Decoder() != "d" || fmt.Sprint(a.Classes()) != "[a b]" {
		t.Errorf("got fingerprints %q and %q, decoder %q, classes %q; want two of f, and those of the data", a.Fingerprint(), b.Fingerprint(), a.Decoder(), a.Classes())
	}
	if plain := of(numbered{[]int{0}}, 1); plain.Fingerprint() != "" || plain.Decoder() != "" || plain.Classes() != nil {
		t.Errorf("of data that says nothing: got %q, %q, %q, want nothing", plain.Fingerprint(), plain.Decoder(), plain.Classes())
	}
}

func TestWeightedNamesWhatItRefuses(t *testing.T) {
	set := numbered{[]int{0, 1}}
	for want, weights := range map[string][]float64{
		"got 1 weights for 2 examples":                  {1},
		"example 1 has the weight -1":                   {1, -1},
		"example 0 has the weight NaN":                  {math.NaN(), 1},
		"example 1 has the weight +Inf":                 {1, math.Inf(1)},
		"the sum of the weights is 0":                   {0, 0},
		"the sum of the weights is +Inf, want a finite": {1e308, 1e308},
	} {
		if _, err := data.Weighted(set, weights, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weights %v: got error %v, want one with %q", weights, err, want)
		}
	}
	if _, err := data.Weighted(set, []float64{1, 1}, -1); err == nil || !strings.Contains(err.Error(), "got -1 draws") {
		t.Errorf("-1 draws: got error %v", err)
	}
	w := weigh(t, set, []float64{1, 1}, 3)
	for _, k := range []int{-1, 3} {
		err := w.(data.ExampleReader).ReadExample(t.Context(), k, &data.Example{Pixels: make([]uint8, 1)})
		_, read := w.Read(k, make([]uint8, 1))
		if want := fmt.Sprintf("got draw %d, want 0 to 2", k); !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(read), want) {
			t.Errorf("draw %d: got errors %v and %v, want %q", k, err, read, want)
		}
	}
	if _, err := data.Weighted(numbered{}, nil, 0); err != nil {
		t.Errorf("no draws of no examples: %v", err)
	}
}

// A class that has one example of ten is drawn as often as the other one.
func ExampleWeighted() {
	set := data.Synthetic(10, 1)
	labels := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	balanced, err := data.Weighted(set, data.ClassWeights(labels), 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	weights := data.ClassWeights(labels)
	fmt.Printf("%d draws of %v, weights %.3f and %.3f\n", balanced.Len(), balanced.Shape(), weights[0], weights[9])
	// Output:
	// 1000 draws of 3×32×32, weights 0.111 and 1.000
}
