package generate_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"github.com/paragon-train/paragon/nn/generate"
	"gorgonia.org/gorgonia"
)

func TestTheMostProbableTokenIsChosenWithoutTemperature(t *testing.T) {
	c, err := generate.NewChooser(generate.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Next([]float32{1, 3, 2, 3}); err != nil || got != 1 {
		t.Errorf("got token %d, %v, want 1, the first of the largest", got, err)
	}
}

// frequencies of the tokens chosen.
func frequencies(t *testing.T, cfg generate.Sampling, logits []float32, n int) []float64 {
	t.Helper()
	c, err := generate.NewChooser(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(logits))
	for range n {
		token, err := c.Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		out[token] += 1 / float64(n)
	}
	return out
}

func TestTokensAreChosenByTheirProbability(t *testing.T) {
	// The probabilities are 0.4, 0.1, 0.3 and 0.2.
	logits := []float32{float32(math.Log(0.4)), float32(math.Log(0.1)), float32(math.Log(0.3)), float32(math.Log(0.2))}
	for name, c := range map[string]struct {
		cfg  generate.Sampling
		want []float64
	}{
		"as they are":             {generate.Sampling{Temperature: 1}, []float64{0.4, 0.1, 0.3, 0.2}},
		"at half the temperature": {generate.Sampling{Temperature: 0.5}, []float64{16. / 30, 1. / 30, 9. / 30, 4. / 30}},
		"the best":                {generate.Sampling{Temperature: 1, TopK: 1}, []float64{1, 0, 0, 0}},
		"the two best":            {generate.Sampling{Temperature: 1, TopK: 2}, []float64{4. / 7, 0, 3. / 7, 0}},
		"more than there are":     {generate.Sampling{Temperature: 1, TopK: 9}, []float64{0.4, 0.1, 0.3, 0.2}},
		"those that make 0.6":     {generate.Sampling{Temperature: 1, TopP: 0.6}, []float64{4. / 7, 0, 3. / 7, 0}},
		"those that make 0.8":     {generate.Sampling{Temperature: 1, TopP: 0.8}, []float64{4. / 9, 0, 3. / 9, 2. / 9}},
		"the best of a little":    {generate.Sampling{Temperature: 1, TopP: 1e-9}, []float64{1, 0, 0, 0}},
		"0.6 of the three best":   {generate.Sampling{Temperature: 1, TopK: 3, TopP: 0.5}, []float64{4. / 7, 0, 3. / 7, 0}},
	} {
		got := frequencies(t, c.cfg, logits, 20_000)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 0.015 || c.want[i] == 0 && got[i] != 0 {
				t.Errorf("%s: frequencies %.3v, want %.3v", name, got, c.want)
				break
			}
		}
	}
}

func TestTheSeedDecides(t *testing.T) {
	draw := func(seed uint64) (text string) {
		c, err := generate.NewChooser(generate.Sampling{Temperature: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			token, err := c.Next(make([]float32, 26))
			if err != nil {
				t.Fatal(err)
			}
			text += string('a' + token)
		}
		return text
	}
	if one, again, two := draw(1), draw(1), draw(2); one != again || one == two {
		t.Errorf("seeds 1, 1 and 2 give %s, %s and %s", one, again, two)
	}
}

func TestChoosersRefuseByName(t *testing.T) {
	for want, cfg := range map[string]generate.Sampling{
		"Temperature is -1":  {Temperature: -1},
		"Temperature is NaN": {Temperature: math.NaN()},
		"TopK is -1":         {TopK: -1},
		"TopP is 1.5":        {TopP: 1.5},
	} {
		if _, err := generate.NewChooser(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %s", err, want)
		}
	}
	c, err := generate.NewChooser(generate.Sampling{Temperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	for want, logits := range map[string][]float32{
		"got no logits":                    nil,
		"logit of token 1 is not a number": {1, float32(math.NaN())},
		"the largest logit is -Inf":        {float32(math.Inf(-1))},
	} {
		if _, err := c.Next(logits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %s", err, want)
		}
	}
}

func TestTextWaitsForWholeCharacters(t *testing.T) {
	var text generate.Text
	all := "aé€𝄞z"
	got := ""
	for _, b := range []byte(all) {
		piece := text.Add([]byte{b})
		if strings.ContainsRune(piece, '�') {
			t.Fatalf("%q then %q, which is no part of %q", got, piece, all)
		}
		got += piece
	}
	if got += text.End(); got != all {
		t.Errorf("got %q, want %q", got, all)
	}
	// A character that stays alone, and bytes that are none.
	if got := text.Add([]byte("x\xe2\x82")) + text.Add([]byte("y\xff")) + text.Add([]byte("\xe2")) + text.End(); got != "x��y��" {
		t.Errorf("got %q, want x��y��", got)
	}
}

var small = nn.GPTConfig{Layers: 2, Heads: 2, Width: 16, Positions: 12, Vocabulary: 9}

func build(tokens, first *gorgonia.Node, caches []*nn.KVCache) *gorgonia.Node {
	cfg := small
	cfg.First, cfg.Cache = first, caches
	return nn.GPT(tokens, cfg)
}

// whole gives the logits behind tokens by a program that computes all positions.
func whole(t *testing.T, share *nn.Program, tokens []int32) []float32 {
	t.Helper()
	g := gorgonia.NewGraph()
	logits := nn.GPT(nn.IDs(g, "tokens", 1, len(tokens)), small)
	p, err := nn.Compile(logits, nn.Config{Share: share, Inference: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in, err := p.Labels("tokens")
	if err != nil {
		t.Fatal(err)
	}
	in.Set(tokens)
	if err := p.Forward(context.Background()); err != nil {
		t.Fatal(err)
	}
	all, err := p.Output(logits)
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-small.Vocabulary:]
}

func trained(t *testing.T) *nn.Program {
	t.Helper()
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Seed: 3})
	p, err := nn.Compile(nn.GPTLoss(nn.IDs(g, "tokens", 2, 8), nn.Labels(g, "labels", 2, 8), small, nn.CrossEntropyConfig{}), nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A decoder gives the logits of a program that computes everything, however tokens come, and follows
// the parameters of the program that it shares with. A sequence that is too long goes on from its
// newer half.
func TestADecoderComputesEachPositionOnce(t *testing.T) {
	p := trained(t)
	for _, chunk := range []int{1, 4, 5, 0} {
		d, err := generate.NewDecoder(generate.DecoderConfig{Share: p, Build: build, Layers: small.Layers, Positions: small.Positions, Chunk: chunk})
		if err != nil {
			t.Fatal(err)
		}
		var all []int32
		for _, piece := range [][]int32{{1, 2, 3, 4, 5, 6, 7}, {8}, {0, 1}, {2}, {3}, {4}, {5, 6}} {
			p.Params()[0].Value[0] += 0.01
			if all = append(all, piece...); len(all) > small.Positions {
				all = all[len(all)-small.Positions/2:]
			}
			// What is in the caches was computed with older values.
			d.Reset()
			got, err := d.Add(t.Context(), all...)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, whole(t, p, all))
			if len(all) > 1 {
				d.Reset()
				if _, err := d.Add(t.Context(), all[:len(all)-1]...); err != nil {
					t.Fatal(err)
				}
				if got, err = d.Add(t.Context(), all[len(all)-1]); err != nil {
					t.Fatal(err)
				}
				compare(t, got, whole(t, p, all))
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A sequence that does not fit goes on from its newer half.
func TestADecoderForgetsTheOlderHalf(t *testing.T) {
	p := trained(t)
	d, err := generate.NewDecoder(generate.DecoderConfig{Share: p, Build: build, Layers: small.Layers, Positions: small.Positions, Chunk: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var got []float32
	for i := range int32(13) {
		if got, err = d.Add(t.Context(), i%9); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, got, whole(t, p, []int32{7, 8, 0, 1, 2, 3}))
	if d.Length() != 6 {
		t.Errorf("the sequence has %d tokens, want 6", d.Length())
	}
	if _, err := d.Add(t.Context()); err == nil {
		t.Error("no tokens: got no error")
	}
}

func compare(t *testing.T, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("logits %v, want %v", got, want)
		}
	}
}
