package data

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"math/rand/v2"
)

// Weighted is a data set of so many draws from another one: draw k of an epoch is example i with
// the probability weights[i] over their sum, independently of all other draws. So rare classes can
// be read as often as common ones, with ClassWeights. Augmentation sees the draw's number: an
// example that is drawn twice in an epoch is augmented differently each time.
//
// Which example it is depends on the run's seed, the epoch and k alone, as all that is drawn of an
// example: it is taken from Example.Draw. Each draw counts once in an epoch, also when workers
// join, leave or are lost, and a run resumes as with any data set. Without random numbers, as in
// Read or in an evaluation, draw k is the same example always.
//
// It is what WeightedRandomSampler(weights, num_samples, replacement=True) is in PyTorch, where
// each rank draws for itself and a resumed epoch begins anew. There is no drawing without
// replacement.
//
// It takes 8 bytes for each example of d. A d that reads ahead (Announcer) is not told what will
// be drawn.
func Weighted(d Dataset, weights []float64, draws int) (Dataset, error) {
	switch {
	case draws < 0:
		return nil, fmt.Errorf("data: weighted: got %d draws, want at least 0", draws)
	case len(weights) != d.Len():
		return nil, fmt.Errorf("data: weighted: got %d weights for %d examples, want one for each", len(weights), d.Len())
	case uint64(len(weights)) > math.MaxUint32:
		return nil, fmt.Errorf("data: weighted: got %d examples, want at most %d", len(weights), uint32(math.MaxUint32))
	}
	sum := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("data: weighted: example %d has the weight %v, want a finite one of at least 0", i, w)
		}
		sum += w
	}
	if draws > 0 && !(sum > 0) || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("data: weighted: the sum of the weights is %v, want a finite one above 0", sum)
	}
	w := &weighted{dataset: d, draws: draws, alias: newAlias(weights, sum), sum: fingerprint(weights)}
	w.examples, _ = d.(ExampleReader)
	return w, nil
}

// ClassWeights returns a weight for each example, by the examples' labels, with which Weighted
// draws all classes equally often: one over the number of examples of its class. Examples with a
// label below 0, which have no class, have the weight 0.
func ClassWeights(labels []int) []float64 {
	counts := make(map[int]int)
	for _, label := range labels {
		counts[label]++
	}
	weights := make([]float64, len(labels))
	for i, label := range labels {
		if label >= 0 {
			weights[i] = 1 / float64(counts[label])
		}
	}
	return weights
}

// A weighted data set is that of Weighted.
type weighted struct {
	dataset Dataset

	// examples is the dataset; nil: it is no ExampleReader.
	examples ExampleReader

	draws int
	alias alias

	// sum is that of all weights.
	sum uint64
}

func (w *weighted) Len() int     { return w.draws }
func (w *weighted) Shape() Shape { return w.dataset.Shape() }

// LabelWidth implements ExampleReader.
func (w *weighted) LabelWidth() int { return labelWidth(w.dataset) }

// Read implements Dataset, with no random numbers.
func (w *weighted) Read(k int, dst []uint8) (label int, err error) {
	i, err := w.choose(k, nil)
	if err != nil {
		return 0, err
	}
	return w.dataset.Read(i, dst)
}

// ReadExample implements ExampleReader.
func (w *weighted) ReadExample(ctx context.Context, k int, e *Example) error {
	i, err := w.choose(k, e.Draw)
	if err != nil {
		return err
	}
	if w.examples != nil {
		return w.examples.ReadExample(ctx, i, e)
	}
	e.Label, err = w.dataset.Read(i, e.Pixels)
	return err
}

// choose returns the example of a draw.
func (w *weighted) choose(k int, r *rand.Rand) (int, error) {
	if k < 0 || k >= w.draws {
		return 0, fmt.Errorf("data: weighted: got draw %d, want 0 to %d", k, w.draws-1)
	}
	if r == nil {
		r = rand.New(rand.NewPCG(0, uint64(k)))
	}
	return w.alias.draw(r.Uint64()), nil
}

// Fingerprint is that of the data set with the weights and the number of draws; empty: it has none.
func (w *weighted) Fingerprint() string {
	d, ok := w.dataset.(interface{ Fingerprint() string })
	if !ok || d.Fingerprint() == "" {
		return ""
	}
	return fmt.Sprintf("%s, %d draws by weights %016x", d.Fingerprint(), w.draws, w.sum)
}

// Decoder is that of the data set; empty: it has none.
func (w *weighted) Decoder() string {
	if d, ok := w.dataset.(interface{ Decoder() string }); ok {
		return d.Decoder()
	}
	return ""
}

// Classes are those of the data set; nil: it names none.
func (w *weighted) Classes() []string {
	if d, ok := w.dataset.(interface{ Classes() []string }); ok {
		return d.Classes()
	}
	return nil
}

func fingerprint(weights []float64) uint64 {
	hash := fnv.New64a()
	var b [8]byte
	for _, w := range weights {
		for k, v := 0, math.Float64bits(w); k < len(b); k++ {
			b[k] = byte(v >> (8 * k))
		}
		hash.Write(b[:])
	}
	return hash.Sum64()
}

// An alias table draws numbers with given probabilities, each in the same short time (Vose, A
// Linear Algorithm for Generating Random Numbers with a Given Distribution, 1991). Number i is
// drawn at column i, with the probability own[i] over 2³², or else as the other of a column.
// Probabilities are exact to 2⁻³² of a column.
type alias []column

type column struct{ own, other uint32 }

func newAlias(weights []float64, sum float64) alias {
	n := len(weights)

	// table and share are those of a column.
	table, share := make(alias, n), make([]float64, n)
	var small, large []int
	heaviest := 0
	for i, w := range weights {
		if share[i] = w / sum * float64(n); share[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
		if w > weights[heaviest] {
			heaviest = i
		}
	}
	for len(small) > 0 && len(large) > 0 {
		i, other := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		table[i] = column{uint32(share[i] * (1 << 32)), uint32(other)}
		if share[other] -= 1 - share[i]; share[other] < 1 {
			large = large[:len(large)-1]
			small = append(small, other)
		}
	}

	// But for rounding, what is left are whole columns.
	for _, i := range append(small, large...) {
		table[i] = column{0, uint32(i)}
		if weights[i] == 0 {
			table[i].other = uint32(heaviest)
		}
	}
	return table
}

// draw makes a number of the table of 64 random bits.
func (a alias) draw(random uint64) int {
	i, rest := bits.Mul64(random, uint64(len(a)))
	if c := a[i]; uint32(rest>>32) >= c.own {
		return int(c.other)
	}
	return int(i)
}
