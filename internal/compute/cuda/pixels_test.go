package cuda_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

func TestImagesInBytesAreThoseOfNumbers(t *testing.T) {
	colour := classifier("colour", 3, []int{3, 6, 5}, func(x *gorgonia.Node) *gorgonia.Node { return end(conv(x, "conv1", 8, 3, 1, 1)) })
	grey := classifier("grey", 3, []int{1, 6, 5}, func(x *gorgonia.Node) *gorgonia.Node { return end(conv(x, "conv1", 8, 3, 1, 1)) })
	flat := classifier("flat", 3, []int{30}, end)
	for _, m := range []model{colour, grey, flat} {
		_, gpu := cuda.NewFake(1)
		numbers, bytes := compile(t, m, cuda.Config{GPU: gpu}), compile(t, m, cuda.Config{GPU: gpu})
		numbers.fill(t, nil, 5, 1)
		bytes.fill(t, nil, 5, 1)

		// Graphs that were captured before are made anew.
		bytes.step(t)
		bytes.step(t)
		c := bytes.plan.Inputs[0].Len() / 3 / 30
		mean, std := []float32{0.4, 0.5, 0.6}[:c], []float32{0.2, 0.3, 0.25}[:c]
		px, err := bytes.Pixels(0, cuda.PixelsConfig{C: c, H: 6, W: 5, Mean: mean, Std: std})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 3 {
			for i := range px.Images {
				px.Images[i] = uint8(rng.IntN(256))
			}
			in := numbers.host.Inputs[0].Data.([]float32)
			for n := range 3 {
				dx, dy, flip := rng.IntN(5)-2, rng.IntN(5)-2, rng.IntN(2) == 1
				px.Draws[n] = cuda.Draw(dx, dy, flip)
				for i := range c * 30 {
					ch, y, x := i/30, i/5%6+dy, i%5
					if flip {
						x = 4 - x
					}
					x += dx
					var b uint8
					if x >= 0 && x < 5 && y >= 0 && y < 6 {
						b = px.Images[((n*c+ch)*6+y)*5+x]
					}
					in[n*c*30+i] = (float32(b)/255 - mean[ch]) / std[ch]
				}
			}
			want, got := numbers.step(t), bytes.step(t)
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: loss of bytes is %g, of numbers %g", m.name, got, want)
			}
			for i, v := range bytes.plan.Params {
				if !slices.Equal(bytes.host.Grads[i], numbers.host.Grads[i]) {
					t.Errorf("%s: gradient of %s is another", m.name, v.Name)
				}
			}
		}
		if _, err := bytes.Pixels(0, cuda.PixelsConfig{C: c, H: 6, W: 5}); err == nil {
			t.Errorf("%s: pixels twice: got no error", m.name)
		}
	}
	_, gpu := cuda.NewFake(1)
	p := compile(t, classifier("rows", 3, []int{3, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node { return end(nn.ReLU(x)) }), cuda.Config{GPU: gpu})
	if _, err := p.Pixels(0, cuda.PixelsConfig{C: 3, H: 4, W: 4}); !errors.Is(err, cuda.ErrNoPixels) {
		t.Errorf("an input that is read row-major: got error %v, want ErrNoPixels", err)
	}
	for _, cfg := range []cuda.PixelsConfig{{C: 3, H: 4, W: 5}, {C: 5, H: 4, W: 4}, {C: 3, H: 4, W: 4, Mean: []float32{1}}, {}} {
		if _, err := p.Pixels(0, cfg); err == nil {
			t.Errorf("%+v of an input (3,3,4,4): got no error", cfg)
		}
	}
}
