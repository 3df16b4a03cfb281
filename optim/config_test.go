package optim_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

func TestValidateNamesTheFieldTheValueAndTheRule(t *testing.T) {
	adam := optim.Config{Name: "adam"}
	with := func(change func(c *optim.Config)) optim.Config {
		c := adam
		change(&c)
		return c
	}
	for _, c := range []struct {
		cfg  optim.Config
		want string
	}{
		{optim.Config{}, `unknown optimizer ""`},
		{optim.Config{Name: "adamm"}, `"adamm", want one of sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lars, lamb, test`},
		{with(func(c *optim.Config) { c.LearningRate = -1 }), "LearningRate: got -1, want a finite number, at least 0"},
		{with(func(c *optim.Config) { c.LearningRate = math.NaN() }), "LearningRate: got NaN"},
		{with(func(c *optim.Config) { c.Beta2 = 1 }), "Beta2: got 1, want at least 0 and below 1"},
		{with(func(c *optim.Config) { c.Momentum = 0.9 }), "adam: Momentum: got 0.9, want 0: adam does not use it"},
		{with(func(c *optim.Config) { c.Centered = true }), "Centered: got true"},
		{optim.Config{Name: "nag", Momentum: 0.9, Velocity: "weights"}, `Velocity: got "weights", want "" or "gradients"`},
		{optim.Config{Name: "nag", Velocity: optim.Gradients}, `Velocity: got "gradients", want "" without Momentum`},
		{with(func(c *optim.Config) { c.Rescale = math.Inf(-1) }), "Rescale: got -Inf"},
		{with(func(c *optim.Config) { c.Reduction = "max" }), `Reduction: got "max", want "sum" or "mean"`},
		{with(func(c *optim.Config) { c.Schedule.Kind = "step" }), `Schedule.Kind: got "step", want empty (constant) or one of factor`},
		{with(func(c *optim.Config) { c.Schedule = optim.Schedule{Kind: "cosine", Steps: 5, Warmup: 5} }), "Schedule.Steps: got 5, want above Warmup, 5"},
		{with(func(c *optim.Config) { c.Schedule = optim.Schedule{Kind: "factor", Factor: 2} }), "Schedule.Factor: got 2"},
		{with(func(c *optim.Config) { c.Schedule.Kind = "multistep" }), "Schedule.Milestones: got none"},
		{with(func(c *optim.Config) { c.Schedule = optim.Schedule{Kind: "multistep", Milestones: []uint64{4, 4}} }), "Milestones[1]: got 4, want above 4"},
		{with(func(c *optim.Config) { c.Changes = []optim.Change{{Step: 3}, {Step: 2}} }), "Changes[1].Step: got 2, want above 3"},
		{with(func(c *optim.Config) { c.LearningRateFactors = []optim.Factor{{Keys: "["}} }), `LearningRateFactors[0].Keys: got "["`},
		{with(func(c *optim.Config) { c.WeightDecayFactors = []optim.Factor{{Keys: "a", Factor: -1}} }), "WeightDecayFactors[0].Factor: got -1"},
	} {
		err := c.cfg.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "optim: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v:\n got error %v\nwant one with %q", c.cfg, err, c.want)
		}
		if _, err := optim.New(c.cfg); err == nil {
			t.Errorf("New(%+v): got no error", c.cfg)
		}
	}
}

// full is a config with every kind of field set.
func full() optim.Config {
	return optim.Config{
		Name: "sgd", LearningRate: 0.1, Momentum: 0.9, Velocity: optim.Gradients, WeightDecay: 5e-4, ClipGradient: 2, ClipGlobalNorm: 3, Rescale: 0.5,
		Reduction:           optim.Mean,
		Schedule:            optim.Schedule{Kind: "cosine", Steps: 100, Warmup: 10, Final: 1e-4},
		Changes:             []optim.Change{{Step: 3, LearningRate: 0}, {Step: 4, LearningRate: 0.2}},
		LearningRateFactors: []optim.Factor{{Keys: "stem.*", Factor: 0}},
		WeightDecayFactors:  []optim.Factor{{Keys: "*.bias", Factor: 0}},
	}
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	for _, cfg := range append(configs(), full()) {
		data, err := cfg.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := optim.Decode(data)
		if err != nil {
			t.Fatalf("Decode(%s): %v", data, err)
		}
		if !got.Equal(cfg) || got.Hash() != cfg.Hash() || got.Hash() == "" {
			t.Errorf("%s: got %+v, want %+v", data, got, cfg)
		}
	}
}

func TestDecodeRefusesWhatEncodeDoesNotWrite(t *testing.T) {
	for data, want := range map[string]string{
		``:                                     "EOF",
		`{"name":"sgd","learning_rat":1}`:      `unknown field "learning_rat"`,
		`{"name":"sgd"} {"name":"sgd"}`:        "more follows",
		`{"name":"sgd","learning_rate":"1"}`:   "learning_rate",
		`{"name":"sgd","learning_rate":1e999}`: "learning_rate",
		`{"name":"sgd","schedule":{"kind":7}}`: "kind",
		`{"name":"nope"}`:                      `unknown optimizer "nope"`,
		`{"name":"` + strings.Repeat("x", optim.MaxEncoded) + `"}`: "want at most 1048576",
	} {
		if _, err := optim.Decode([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%.60s): got error %v, want one with %q", data, err, want)
		}
	}
}

func TestEqualGoesByMeaning(t *testing.T) {
	a := optim.Config{Name: "adam"}
	b := optim.Config{Name: "adam", LearningRate: 0.001, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Rescale: 1,
		Reduction: "sum", Changes: []optim.Change{}}
	if !a.Equal(b) || a.Hash() != b.Hash() {
		t.Errorf("adam and adam with its defaults written out: want equal")
	}
	b.Beta1 = 0.8
	if a.Equal(b) || a.Hash() == b.Hash() {
		t.Errorf("adam and adam with another Beta1: want different")
	}
	if h := (optim.Config{Name: "nope"}).Hash(); h != "" {
		t.Errorf("hash of a config that is not valid: got %q, want none", h)
	}
}

func TestFactorsPreferTheExactKeyThenTheFirstPattern(t *testing.T) {
	cfg := optim.Config{Name: "sgd",
		LearningRateFactors: []optim.Factor{{Keys: "*.bias", Factor: 2}, {Keys: "stem.*", Factor: 3}, {Keys: "stem.bias", Factor: 4}},
		WeightDecayFactors:  []optim.Factor{{Keys: "*.bias", Factor: 0}},
	}
	for key, want := range map[string]optim.Factors{
		"head.bias":   {LearningRate: 2, WeightDecay: 0},
		"stem.bias":   {LearningRate: 4, WeightDecay: 0},
		"stem.weight": {LearningRate: 3, WeightDecay: 1},
		"other":       {LearningRate: 1, WeightDecay: 1},
	} {
		if got := newOptimizer(t, cfg).Factors(key); got != want {
			t.Errorf("Factors(%q): got %+v, want %+v", key, got, want)
		}
	}
}

// A norm over a part of a key is another one: a key that is cut would be clipped, or scaled, by
// each part's own.
func TestRulesWithNormsWantWholeKeys(t *testing.T) {
	for _, c := range []struct {
		cfg  optim.Config
		want bool
	}{
		{optim.Config{Name: "sgd"}, false},
		{optim.Config{Name: "adam", ClipGradient: 0.5}, false}, // goes by each number alone
		{optim.Config{Name: "adam", ClipNorm: 0.5}, true},
		{optim.Config{Name: "sgd", ClipNorm: 1e-9}, true},
		{optim.Config{Name: "sgd", ClipNorm: 2}, true},
		{optim.Config{Name: "lars"}, true},
		{optim.Config{Name: "lamb"}, true},
	} {
		if got := c.cfg.WholeKeys(); got != c.want {
			t.Errorf("%s with ClipNorm %v: got whole keys %v, want %v", c.cfg.Name, c.cfg.ClipNorm, got, c.want)
		}
	}
}

func TestScaleForDividesUnderMean(t *testing.T) {
	for _, c := range []struct {
		reduction    string
		weight, want float64
	}{{"", 128, 1}, {"sum", 128, 1}, {"mean", 128, 1.0 / 128}, {"mean", 0, 1}, {"mean", math.NaN(), 1}} {
		if got := (optim.Config{Name: "sgd", Reduction: c.reduction}).ScaleFor(c.weight); got != c.want {
			t.Errorf("%q ScaleFor(%v): got %v, want %v", c.reduction, c.weight, got, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, cfg := range append(configs(), full()) {
		data, err := cfg.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := optim.Decode(data)
		if err != nil {
			return
		}
		once, err := cfg.Encode()
		if err != nil {
			t.Fatalf("encode %+v: %v", cfg, err)
		}
		again, err := optim.Decode(once)
		if err != nil {
			t.Fatalf("decode %s: %v", once, err)
		}
		twice, err := again.Encode()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("got %s, want %s (%v)", twice, once, err)
		}
		o := newOptimizer(t, cfg)
		value, grad := []float32{1, -2}, []float32{0.5, 3}
		if err := o.At(7, 1, o.Factors("key")).WithClip(1).Update(value, grad, o.NewState(2)); err != nil {
			t.Fatal(err)
		}
	})
}
