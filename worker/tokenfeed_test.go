package worker

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/optim"
	"gorgonia.org/gorgonia"
)

// countingWindows are windows of 4 tokens whose first input is their number.
type countingWindows struct{ n int }

func (w countingWindows) Len() int    { return w.n }
func (w countingWindows) Length() int { return 4 }
func (w countingWindows) ReadPair(_ context.Context, i int, inputs, targets []int32) error {
	for k := range 4 {
		inputs[k], targets[k] = int32(i), int32((i+k)%w.n)
	}
	// A window has as many labels as its number says.
	for k := i % 4; k > 0; k-- {
		targets[4-k] = -1
	}
	return nil
}

func tokenProgram(t *testing.T, batch int, cfg nn.Config) *nn.Program {
	t.Helper()
	g := gorgonia.NewGraph()
	h := nn.Embedding(nn.IDs(g, "tokens", batch, 4), "table", nn.EmbeddingConfig{Rows: 50, Dim: 8})
	p, err := nn.Compile(nn.TiedCrossEntropy(h, "table.weight", nn.Labels(g, "labels", batch, 4), nn.CrossEntropyConfig{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Every window is used once in an epoch, by two workers with two devices each, in steps of two runs.
func TestATokenFeedUsesEachWindowOnce(t *testing.T) {
	const windows = 45
	var seen []int
	for rank := range 2 {
		programs := []*nn.Program{tokenProgram(t, 3, nn.Config{Threads: 1}), tokenProgram(t, 3, nn.Config{Threads: 1})}
		f, err := NewTokenFeed(TokenFeedConfig{Programs: programs, Windows: countingWindows{windows}, Workers: 2, Rank: rank, Seed: 5, Accumulation: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Steps() != 2 {
			t.Fatalf("got %d steps, want 2", f.Steps())
		}
		if err := f.Begin(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			counts, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for d, n := range counts {
				in := f.inputs[d]
				for k := range n {
					seen = append(seen, int(in.inputs[4*k]))
				}
			}
		}
	}
	slices.Sort(seen)
	if want := upTo(windows); !slices.Equal(seen, want) {
		t.Errorf("the windows used are %v, want each of %d once", seen, windows)
	}
}

func TestATokenFeedRefusesByName(t *testing.T) {
	p := tokenProgram(t, 3, nn.Config{Threads: 1})
	for want, cfg := range map[string]TokenFeedConfig{
		"want Programs and Windows": {Programs: []*nn.Program{p}},
		"Accumulation is -1":        {Programs: []*nn.Program{p}, Windows: countingWindows{9}, Accumulation: -1},
		"batch of device 1 is 2":    {Programs: []*nn.Program{p, tokenProgram(t, 2, nn.Config{Threads: 1})}, Windows: countingWindows{9}},
		"want both of windows of 5": {Programs: []*nn.Program{p}, Windows: longWindows{}},
	} {
		cfg.Workers = 1
		if _, err := NewTokenFeed(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %s", err, want)
		}
	}
}

type longWindows struct{ countingWindows }

func (longWindows) Length() int { return 5 }

// The loss of an evaluation is over labels, however they are spread over batches, and the perplexity
// is that of all of them.
func TestTokenEvaluatorWeighsLabels(t *testing.T) {
	trains := tokenProgram(t, 3, nn.Config{Threads: 1})
	score := func(batch int) Scores {
		e := &TokenEvaluator{Program: tokenProgram(t, batch, nn.Config{Threads: 1, Inference: true, Share: trains}), Windows: countingWindows{11}}
		s, err := e.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, all := score(1), score(11)
	for _, s := range []Scores{one, score(4)} {
		if math.Abs(s.Loss-all.Loss) > 1e-6 || s.Examples != 11 || !math.IsNaN(s.Accuracy) {
			t.Errorf("got %+v, want the loss %v of 11 windows, and no accuracy", s, all.Loss)
		}
		if p := s.Metrics[0]; p.Name != "perplexity" || math.Abs(p.Value-math.Exp(s.Loss)) > 1e-9 {
			t.Errorf("got %+v, want the perplexity %v", p, math.Exp(s.Loss))
		}
	}
}

// Fit trains on windows: the loss falls.
func TestFitTrainsOnWindows(t *testing.T) {
	store, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := tokenProgram(t, 3, nn.Config{Threads: 1})
	feed, err := NewTokenFeed(TokenFeedConfig{Programs: []*nn.Program{p}, Windows: countingWindows{20}, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	trainer, err := NewTrainer(t.Context(), Config{Store: store, Programs: []*nn.Program{p}, Optimizer: optim.Config{Name: "adamw", LearningRate: 0.05}})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	epochs, err := Fit(t.Context(), FitConfig{Trainer: trainer, Feed: feed, Epochs: 4,
		Evaluator: &TokenEvaluator{Program: tokenProgram(t, 4, nn.Config{Threads: 1, Inference: true, Share: p}), Windows: countingWindows{20}}})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := epochs[0].Test.Loss, epochs[3].Test.Loss; !(last < first-0.1) {
		t.Errorf("the loss went from %v to %v, want it to fall", first, last)
	}
}
