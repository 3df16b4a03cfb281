package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/optim"
)

// A normCase has gradients of several keys, and what clipping them by their norm gives.
type normCase struct {
	Attributes struct{ Limit float64 }
	Gradients  map[string]struct{ Data []float32 }
	Squares    map[string]float64
	Norm       float64
	Factor     float64
	Clipped    map[string]struct{ Data []float32 }
}

// The factor of a step is that of the reference, and every rule gets the gradients that it clips.
func TestClipGlobalNormIsThatOfAllKeysTogether(t *testing.T) {
	data, err := os.ReadFile("testdata/global_norm.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []normCase }
	if err := json.Unmarshal(data, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("got %d cases, error %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		// The weights of a round scale the gradient before its norm is taken.
		o := newOptimizer(t, optim.Config{Name: "sgd", LearningRate: 1, ClipGlobalNorm: c.Attributes.Limit})
		pass := o.At(0, 0.25, one)
		sum := 0.0
		for key, g := range c.Gradients {
			squares := pass.GradientSquares(scaled(g.Data, 4))
			if want := c.Squares[key]; math.Abs(squares-want) > 1e-7*want {
				t.Errorf("limit %v: key %s: got squares %v, want %v", c.Attributes.Limit, key, squares, want)
			}
			sum += squares
		}
		norm := math.Sqrt(sum)
		factor := o.Config().ClipFactor(norm)
		if math.Abs(norm-c.Norm) > 1e-7*c.Norm || math.Abs(factor-c.Factor) > 1e-7*c.Factor {
			t.Errorf("limit %v: got norm %v and factor %v, want %v and %v", c.Attributes.Limit, norm, factor, c.Norm, c.Factor)
		}
		for key, g := range c.Gradients {
			value := make([]float32, len(g.Data))
			if err := pass.WithClip(factor).Update(value, scaled(g.Data, 4), o.NewState(len(value))); err != nil {
				t.Fatal(err)
			}
			for i, want := range c.Clipped[key].Data {
				if math.Abs(float64(value[i]+want)) > 2e-6 {
					t.Errorf("limit %v: key %s: got a step of %v, want %v", c.Attributes.Limit, key, value[i], -want)
				}
			}
		}
	}
}

func scaled(x []float32, by float32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = by * x[i]
	}
	return y
}

// Every rule takes a clipped gradient as the same gradient made smaller, and one that is not
// clipped as it is, bit for bit: in whole keys, in rows and in tables.
func TestEveryRuleTakesAClippedGradientAsASmallerOne(t *testing.T) {
	const factor = 0.25
	grad := []float32{1, -2, 3, -4, 0.5, 6}
	for _, name := range optim.Names() {
		plain, clips := newOptimizer(t, optim.Config{Name: name}), newOptimizer(t, optim.Config{Name: name, ClipGlobalNorm: 1})
		for _, f := range []float64{factor, 1} {
			want, got := []float32{1, 2, 3, 4, 5, 6}, []float32{1, 2, 3, 4, 5, 6}
			a, b := plain.NewState(6), clips.NewState(6)
			for step := range uint64(3) {
				if err := plain.At(step, 1, one).Update(want, scaled(grad, float32(f)), a); err != nil {
					t.Fatal(err)
				}
				pass := clips.At(step, 1, one).WithClip(f)
				if err := pass.Update(got, grad, b); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, factor %v: got %v, want %v", name, f, got, want)
			}
		}
	}
}

func TestAnUpdateWithoutTheFactorIsRefused(t *testing.T) {
	o := newOptimizer(t, optim.Config{Name: "adam", ClipGlobalNorm: 2})
	pass, value := o.At(0, 1, one), []float32{1, 2}
	_, measured := pass.UpdateMeasured(value, []float32{1, 1}, []float32{1, 1}, o.NewState(2), 1, 0)
	for name, err := range map[string]error{
		"whole key":  pass.Update(value, []float32{1, 1}, o.NewState(2)),
		"rows":       pass.UpdateRows([]int64{0}, 1, value, []float32{1}, o.NewState(2)),
		"table":      pass.UpdateTable([]int64{0}, 1, nil, []float32{1}),
		"measured":   measured,
		"both norms": optim.Config{Name: "sgd", ClipNorm: 1, ClipGlobalNorm: 3}.Validate(),
		"negative":   optim.Config{Name: "sgd", ClipGlobalNorm: -1}.Validate(),
	} {
		if err == nil || name != "measured" && !strings.Contains(err.Error(), "ClipGlobalNorm") {
			t.Errorf("%s: got %v, want an error that names ClipGlobalNorm", name, err)
		}
	}
	if !slices.Equal(value, []float32{1, 2}) {
		t.Errorf("the values became %v", value)
	}
}

func TestTheFactorOfANorm(t *testing.T) {
	c := optim.Config{Name: "sgd", ClipGlobalNorm: 2}
	for _, tt := range []struct{ norm, want float64 }{
		{0, 1}, {1, 1}, {2, 1}, {4, 0.5}, {1e300, 2e-300}, {math.Inf(1), 0}, {math.NaN(), 0},
	} {
		if got := c.ClipFactor(tt.norm); got != tt.want {
			t.Errorf("norm %v: got factor %v, want %v", tt.norm, got, tt.want)
		}
	}
	if got := (optim.Config{Name: "sgd"}).ClipFactor(1e9); got != 1 {
		t.Errorf("without a limit: got factor %v, want 1", got)
	}
}
