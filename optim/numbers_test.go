package optim_test

import (
	"math"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

func newOptimizer(t testing.TB, cfg optim.Config) *optim.Optimizer {
	t.Helper()
	o, err := optim.New(cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v", cfg, err)
	}
	return o
}

var one = optim.Factors{LearningRate: 1, WeightDecay: 1}

// The numbers that the predecessors' tests assert.
func TestSingleUpdatesGiveThePublishedNumbers(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   optim.Config
		steps []uint64 // step of each update
		value float32
		want  []float64
	}{
		{"sgd 0.05", optim.Config{Name: "sgd", LearningRate: 0.05}, []uint64{0}, 1, []float64{0.95}},
		{"sgd default rate", optim.Config{Name: "sgd"}, []uint64{0}, 0, []float64{-0.01}},
		// The predecessor's step counter ran twice for each update: its t is 2, then 4.
		{"adam at steps 1 and 3", optim.Config{Name: "adam", LearningRate: 0.1}, []uint64{1, 3}, 1, []float64{0.9255863187, 0.8474920307}},
		{"test, rate 2", optim.Config{Name: "test", LearningRate: 2}, []uint64{0, 1, 2}, 1, []float64{3, 5, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOptimizer(t, c.cfg)
			value, state := []float32{c.value}, o.NewState(1)
			for i, want := range c.want {
				if err := o.At(c.steps[i], 1, one).Update(value, []float32{1}, state); err != nil {
					t.Fatal(err)
				}
				if math.Abs(float64(value[0])-want) > 1e-6 {
					t.Errorf("update %d: got %v, want %v", i, value[0], want)
				}
			}
		})
	}
}

// Two devices with gradient 1 each, rate 1, momentum 0.5; then the factor goes
// to 0.5. The velocity holds the learning rate, so the second step is 1 + 1.
func TestMomentumHoldsTheLearningRate(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 1, Momentum: 0.5})
	value, state := []float32{0}, o.NewState(1)
	for i, want := range []float32{-2, -4} {
		factors := optim.Factors{LearningRate: 1 - 0.5*float64(i), WeightDecay: 1}
		if err := o.At(uint64(i), 1, factors).Update(value, []float32{2}, state); err != nil {
			t.Fatal(err)
		}
		if value[0] != want {
			t.Errorf("step %d: got %v, want %v", i, value[0], want)
		}
	}
}

// With a velocity of gradients the second step is half of what gradients add up to, 2·0.5 + 2: the
// rate acts on all of it, as in PyTorch.
func TestAVelocityOfGradientsDoesNotHoldTheLearningRate(t *testing.T) {
	for _, name := range []string{"sgd", "nag"} {
		o := newOptimizer(t, optim.Config{Name: name, LearningRate: 1, Momentum: 0.5, Velocity: optim.Gradients})
		value, state := []float32{0}, o.NewState(1)
		wants := map[string][]float32{"sgd": {-2, -3.5}, "nag": {-3, -4.75}}[name]
		for i, want := range wants {
			factors := optim.Factors{LearningRate: 1 - 0.5*float64(i), WeightDecay: 1}
			p := o.At(uint64(i), 1, factors)
			if err := p.Update(value, []float32{2}, state); err != nil {
				t.Fatal(err)
			}
			if value[0] != want || p.LearningRate() != factors.LearningRate {
				t.Errorf("%s, step %d: got %v at rate %v, want %v at %v", name, i, value[0], p.LearningRate(), want, factors.LearningRate)
			}
		}
		if m := state.Slot("momentum")[0]; m != -3 {
			t.Errorf("%s: got the velocity %v, want -3", name, m)
		}
	}
}

// Rate 0.1 with a key's factor of 0.5, then rate 0.1 plain.
func TestFactorsMultiplyTheRate(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 0.1})
	value := []float32{1}
	for i, c := range []struct{ factor, want float64 }{{0.5, 0.95}, {1, 0.85}} {
		factors := optim.Factors{LearningRate: c.factor, WeightDecay: 1}
		if err := o.At(uint64(i), 1, factors).Update(value, []float32{1}, nil); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(value[0])-c.want) > 1e-6 {
			t.Errorf("update %d: got %v, want %v", i, value[0], c.want)
		}
	}
}

func TestDuplicateRowsAreAppliedTwice(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 0.1})
	value := make([]float32, 6*2)
	for _, rows := range [][]int64{{1, 3}, {1, 3, 3, 5}} {
		grad := make([]float32, 2*len(rows))
		for i := range grad {
			grad[i] = 1
		}
		if err := o.At(0, 1, one).UpdateRows(rows, 2, value, grad, nil); err != nil {
			t.Fatal(err)
		}
	}
	for row, want := range []float64{0, -0.2, 0, -0.3, 0, -0.1} {
		for _, got := range value[2*row : 2*row+2] {
			if math.Abs(float64(got)-want) > 1e-7 {
				t.Errorf("row %d: got %v, want %v", row, got, want)
			}
		}
	}
}
