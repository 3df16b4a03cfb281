package metrics

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// A Metric measures a model over a set of examples that several workers share: each adds what its
// batches contribute to a vector of sums, the vectors are added, and the values are computed of the
// totals. So they are those of the whole set, and not means of batches' values. It has no state of
// its own; its methods may be called at once.
type Metric interface {
	// Names are those of the values, such as "top5": letters, digits and "_".
	Names() []string
	// Sums is the length of the vector.
	Sums() int
	// Add adds a batch to the sums.
	Add(sums []float64, b Batch)
	// Values computes the values of the sums over all examples, in the order of Names. NaN:
	// there is none.
	Values(sums []float64) []float64
}

// A Batch is what a model makes of some examples. Row i of Outputs belongs to Labels[i], or to row
// i of Targets.
type Batch struct {
	// Outputs are such as logits, row-major. Rows beyond those of Labels are padding.
	Outputs []float32
	// Width is how many numbers a row has: the classes.
	Width int
	// Labels are −1 where the row does not count.
	Labels []int32
	// Targets are those of examples that may have several labels, in place of Labels: a row of
	// Width numbers for each, 1 where it has the label, 0 where it has not, and −1 where that
	// is not known. Nil: rows have Labels.
	Targets []float32
	// Loss is the mean over the rows, or the targets, that count.
	Loss float64
	// ClassWeights are the weights of the classes by which Loss is a mean; nil: all are 1.
	ClassWeights []float32
}

// LossWeight is what Loss was divided by: the number of rows that count, or the sum of the weights
// of their classes; with Targets the number of those that are known. A label that is no class
// weighs nothing.
func (b *Batch) LossWeight() (sum float64) {
	if b.Targets != nil {
		b.Numbers(func(float32, int, bool) { sum++ })
		return sum
	}
	if b.ClassWeights == nil {
		return b.count()
	}
	for _, label := range b.Labels {
		if label >= 0 && int(label) < len(b.ClassWeights) {
			sum += float64(b.ClassWeights[label])
		}
	}
	return sum
}

// Rows calls f for each row that counts.
func (b *Batch) Rows(f func(outputs []float32, label int)) {
	for i, label := range b.Labels {
		if label >= 0 {
			f(b.Outputs[i*b.Width:(i+1)*b.Width], int(label))
		}
	}
}

// Numbers calls f for each target that is known, with the output it belongs to and its column.
func (b *Batch) Numbers(f func(output float32, column int, has bool)) {
	for i, target := range b.Targets {
		if !(target < 0) {
			f(b.Outputs[i], i%b.Width, target >= 0.5)
		}
	}
}

// count is the number of rows that count.
func (b *Batch) count() (n float64) {
	for _, label := range b.Labels {
		if label >= 0 {
			n++
		}
	}
	return n
}

// A Measured is one value of a metric.
type Measured struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// taken are names that reports have already.
var taken = []string{"loss", "accuracy", "train_loss", "step", "epoch"}

// CheckMetrics is an error if metrics cannot be used together: names that are taken or not words,
// or an invalid one.
func CheckMetrics(list []Metric) error {
	seen := slices.Clone(taken)
	for i, m := range list {
		if m == nil {
			return fmt.Errorf("metrics: metric %d is nil, want one", i)
		}
		if v, ok := m.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return fmt.Errorf("metrics: metric %d: %w", i, err)
			}
		}
		for _, name := range m.Names() {
			switch {
			case !validName.MatchString(name):
				return fmt.Errorf("metrics: metric %d has the name %q, want letters, digits and %q", i, name, "_")
			case slices.Contains(seen, name):
				return fmt.Errorf("metrics: metric %d has the name %q, which another one has", i, name)
			}
			seen = append(seen, name)
		}
	}
	return nil
}

// argmax is the first of the largest numbers; −1 if one is not a number.
func argmax(row []float32) int {
	best := 0
	for c, v := range row {
		if v != v {
			return -1
		}
		if v > row[best] {
			best = c
		}
	}
	return best
}

// ratio is NaN of nothing.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// TopK is the share of rows whose label is among the K classes with the largest outputs: "top5" for
// K 5. Of equal outputs the first classes come first.
type TopK struct{ K int }

// Validate is an error if K is below 1.
func (m TopK) Validate() error {
	if m.K < 1 {
		return fmt.Errorf("TopK.K is %d, want at least 1", m.K)
	}
	return nil
}

func (m TopK) Names() []string { return []string{fmt.Sprint("top", m.K)} }
func (m TopK) Sums() int       { return 2 }

func (m TopK) Add(sums []float64, b Batch) {
	b.Rows(func(row []float32, label int) {
		sums[1]++
		if label >= len(row) || argmax(row) < 0 {
			return
		}
		before := 0
		for c, v := range row {
			if v > row[label] || v == row[label] && c < label {
				before++
			}
		}
		if before < m.K {
			sums[0]++
		}
	})
}

func (m TopK) Values(sums []float64) []float64 { return []float64{ratio(sums[0], sums[1])} }

// confusion counts, for each class, the rows that are it and found (true positives), not it and
// found, and it and not found.
func confusion(sums []float64, b Batch, classes int) {
	b.Rows(func(row []float32, label int) {
		if label >= classes {
			return
		}
		switch found := argmax(row); {
		case found == label:
			sums[3*label]++
		default:
			if found >= 0 && found < classes {
				sums[3*found+1]++
			}
			sums[3*label+2]++
		}
	})
}

// F1 is the harmonic mean of precision and recall, with both: "f1", "precision" and "recall", as
// scikit-learn and torchmetrics have them. A class without any row of it, found or not, does not
// count in the macro mean.
type F1 struct {
	Classes int
	// Average is "macro", the mean over classes (also if empty), "micro", over all rows
	// together, or "binary", of class 1 alone.
	Average string
}

// Validate names a field that cannot be.
func (m F1) Validate() error {
	switch {
	case m.Classes < 2:
		return fmt.Errorf("F1.Classes is %d, want at least 2", m.Classes)
	case !slices.Contains([]string{"", "macro", "micro", "binary"}, m.Average):
		return fmt.Errorf("F1.Average is %q, want macro, micro or binary", m.Average)
	}
	return nil
}

func (m F1) Names() []string             { return []string{"f1", "precision", "recall"} }
func (m F1) Sums() int                   { return 3 * m.Classes }
func (m F1) Add(sums []float64, b Batch) { confusion(sums, b, m.Classes) }

func (m F1) Values(sums []float64) []float64 {
	if m.Average == "binary" {
		return f1(sums[3], sums[4], sums[5])
	}
	return averageF1(sums, m.Average == "micro", false)
}

// f1 is the F1 of counts, with precision and recall; 0 of nothing, as scikit-learn's zero_division.
func f1(hit, wrong, missed float64) []float64 {
	share := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	return []float64{share(2*hit, 2*hit+wrong+missed), share(hit, hit+wrong), share(hit, hit+missed)}
}

// averageF1 is f1 of three sums for each class: of all together, or the mean over classes, in which
// empty ones count as 0 or not at all.
func averageF1(sums []float64, micro, emptyCount bool) []float64 {
	total, mean, classes := make([]float64, 3), make([]float64, 3), 0.0
	for c := 0; c < len(sums); c += 3 {
		one := sums[c : c+3]
		if !emptyCount && one[0]+one[1]+one[2] == 0 {
			continue
		}
		classes++
		for i, v := range f1(one[0], one[1], one[2]) {
			mean[i] += v
			total[i] += one[i]
		}
	}
	if micro {
		return f1(total[0], total[1], total[2])
	}
	for i := range mean {
		mean[i] = ratio(mean[i], classes)
	}
	return mean
}

// IoU is the mean over classes of intersection over union, "iou": of rows that are a class and
// found, by those that are it or found. A class without either does not count. For images to
// segment a row is a pixel.
type IoU struct{ Classes int }

// Validate is an error if there are no classes.
func (m IoU) Validate() error {
	if m.Classes < 1 {
		return errors.New("IoU.Classes is below 1, want the number of classes")
	}
	return nil
}

func (m IoU) Names() []string             { return []string{"iou"} }
func (m IoU) Sums() int                   { return 3 * m.Classes }
func (m IoU) Add(sums []float64, b Batch) { confusion(sums, b, m.Classes) }

func (m IoU) Values(sums []float64) []float64 {
	var mean Mean
	for c := range m.Classes {
		if union := sums[3*c] + sums[3*c+1] + sums[3*c+2]; union > 0 {
			mean.Add(sums[3*c]/union, 1)
		}
	}
	return []float64{mean.Value()}
}

// Perplexity is e to the mean loss of a row, "perplexity": of a token where the loss is a
// cross-entropy. Weights of classes count in the mean as in the loss.
type Perplexity struct{}

func (Perplexity) Names() []string { return []string{"perplexity"} }
func (Perplexity) Sums() int       { return 2 }

func (Perplexity) Add(sums []float64, b Batch) {
	if n := b.LossWeight(); n > 0 {
		sums[0] += b.Loss * n
		sums[1] += n
	}
}

func (Perplexity) Values(sums []float64) []float64 {
	return []float64{math.Exp(ratio(sums[0], sums[1]))}
}
