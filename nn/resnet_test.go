package nn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/ref"
	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

func TestModelsHaveThePublishedParameterCounts(t *testing.T) {
	none := func(*rand.Rand, []int, []float64) {} // fifty million values are not looked at
	imageNet := nn.ResNetConfig{Classes: 1000, Init: none, LinearInit: none}
	cifar := nn.ResNetConfig{Classes: 10, Stem: nn.CIFAR, Init: none, LinearInit: none}
	cases := []struct {
		name  string
		image []int
		model func(x *gorgonia.Node) *gorgonia.Node
		want  int
	}{
		{"ResNet34, ImageNet", []int{1, 3, 224, 224}, func(x *gorgonia.Node) *gorgonia.Node { return nn.ResNet34(x, imageNet) }, 21_797_672},
		{"ResNet50, ImageNet", []int{1, 3, 224, 224}, func(x *gorgonia.Node) *gorgonia.Node { return nn.ResNet50(x, imageNet) }, 25_557_032},
		{"ResNet18, CIFAR", []int{2, 3, 32, 32}, func(x *gorgonia.Node) *gorgonia.Node { return nn.ResNet18(x, cifar) }, 11_173_962},
		{"LeNet", []int{2, 1, 28, 28}, func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: 10}) }, 61_706},
		{"MLP", []int{2, 784}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.MLP(x, nn.MLPConfig{Hidden: []int{256, 128}, Classes: 10})
		}, 235_146},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			logits := c.model(nn.Input(g, "images", c.image...))
			if got := nn.ParameterCount(g); got != c.want {
				t.Errorf("%s has %d parameters, want %d", c.name, got, c.want)
			}
			if logits.Shape().Dims() != 2 || logits.Shape()[0] != c.image[0] {
				t.Errorf("%s gives %v for a batch of %d", c.name, logits.Shape(), c.image[0])
			}
			if err := op.CheckCollisions(g); err != nil {
				t.Error(err)
			}
		})
	}
}

// The shapes of table 1 of the paper, and of the tutorial's small images under
// the large stem.
func TestResNetStagesHaveThePublishedShapes(t *testing.T) {
	cases := []struct {
		name  string
		stem  nn.Stem
		model func(*gorgonia.Node, nn.ResNetConfig) *gorgonia.Node
		size  int
		wide  int    // channels of a stage's result per channel of the stage
		last  string // last convolution of a block
		stem1 int    // height after conv1
		sizes [4]int
	}{
		{"ResNet18 at 224", nn.ImageNet, nn.ResNet18, 224, 1, "conv2", 112, [4]int{56, 28, 14, 7}},
		{"ResNet50 at 224", nn.ImageNet, nn.ResNet50, 224, 4, "conv3", 112, [4]int{56, 28, 14, 7}},
		{"ResNet18 at 32", nn.ImageNet, nn.ResNet18, 32, 1, "conv2", 16, [4]int{8, 4, 2, 1}},
		{"ResNet18 at 32, CIFAR", nn.CIFAR, nn.ResNet18, 32, 1, "conv2", 32, [4]int{32, 16, 8, 4}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			x := nn.Input(g, "images", 2, 3, c.size, c.size)
			c.model(x, nn.ResNetConfig{Classes: 10, Stem: c.stem, Width: 4, Init: nn.Zeros()})
			check := func(weight string, want ...int) {
				t.Helper()
				if got := convolved(g, weight); !slices.Equal(got, want) {
					t.Errorf("result of %s is %v, want %v", weight, got, want)
				}
			}
			check("conv1.weight", 2, 4, c.stem1, c.stem1)
			for i, size := range c.sizes {
				check(fmt.Sprintf("layer%d.1.%s.weight", i+1, c.last), 2, 4<<i*c.wide, size, size)
			}
		})
	}
}

// convolved is the shape of the convolution by the named weight.
func convolved(g *gorgonia.ExprGraph, weight string) []int {
	for _, n := range g.AllNodes() {
		if _, ok := n.Op().(*op.Conv2D); ok && op.Children(n)[1].Name() == weight {
			return n.Shape()
		}
	}
	return nil
}

func TestResNetNamesAreTorchvisions(t *testing.T) {
	g := gorgonia.NewGraph()
	nn.ResNet18(nn.Input(g, "images", 1, 3, 32, 32), nn.ResNetConfig{Classes: 10, Width: 2, Init: nn.Zeros()})
	var got []string
	for _, n := range nn.Parameters(g) {
		got = append(got, n.Name())
	}
	for _, want := range []string{"conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "layer2.0.downsample.1.bias", "layer4.1.bn2.weight", "fc.weight", "fc.bias"} {
		if !slices.Contains(got, want) {
			t.Errorf("no parameter %q in %v", want, got)
		}
	}
	if len(got) != 62 || got[0] != "conv1.weight" || got[61] != "fc.bias" {
		t.Errorf("got %d parameters from %s to %s, want 62 from conv1.weight to fc.bias", len(got), got[0], got[len(got)-1])
	}
	states := op.States(g)
	if len(states) != 40 || states[0].Name != "bn1.running_mean" || states[1].Name != "bn1.running_var" {
		t.Errorf("got %d states beginning with %s, want 40 beginning with bn1.running_mean", len(states), states[0].Name)
	}
}

// small is the step of finite differences through a whole network. A deep one has
// so many ReLUs that a longer step crosses the kink of one.
const small = 1e-7

// The stem for large images differs in a wider convolution and a maximum, which LeNet below has,
// too.
func TestGradientsOfANarrowWholeResNet18AreThoseOfFiniteDifferences(t *testing.T) {
	const size = 8
	g := gorgonia.NewGraph()
	nn.Configure(g, nn.GraphConfig{Float64: true, Seed: 3})
	images, labels := nn.Input(g, "images", 2, 3, size, size), nn.Labels(g, "labels", 2)
	logits := nn.ResNet18(images, nn.ResNetConfig{Classes: 3, Stem: nn.CIFAR, Width: 2})
	r, err := ref.New(nn.SoftmaxCrossEntropy(logits, labels))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	set(t, r, "images", noise(2*3*size*size, 5))
	set(t, r, "labels", []float64{2, 0})
	if err := r.CheckGradients(1, small, 1e-4); err != nil {
		t.Error(err)
	}
	if n := len(r.Params()); n != 62 {
		t.Errorf("loss depends on %d parameters, want 62", n)
	}
}

func set(t *testing.T, r *ref.Runner, name string, values []float64) {
	t.Helper()
	if err := r.Set(name, values); err != nil {
		t.Fatal(err)
	}
}

func TestGradientsOfTheOtherModelsAreThoseOfFiniteDifferences(t *testing.T) {
	cases := []struct {
		name  string
		image []int
		model func(x *gorgonia.Node) *gorgonia.Node
	}{
		{"LeNet", []int{2, 1, 12, 12}, func(x *gorgonia.Node) *gorgonia.Node { return nn.LeNet(x, nn.LeNetConfig{Classes: 3}) }},
		{"MLP", []int{2, 1, 2, 3}, func(x *gorgonia.Node) *gorgonia.Node {
			return nn.MLP(x, nn.MLPConfig{Hidden: []int{5, 4}, Classes: 3, Dropout: 0.2})
		}},
		{"embeddings", []int{2, 3}, func(x *gorgonia.Node) *gorgonia.Node {
			ids := nn.IDs(x.Graph(), "ids", 2, 3)
			rows := nn.Flatten(nn.Embedding(ids, "table", nn.EmbeddingConfig{Rows: 4, Dim: 2}))
			return nn.Add(nn.Linear(rows, "deep", nn.LinearConfig{Out: 3}), nn.Linear(x, "wide", nn.LinearConfig{Out: 3, NoBias: true}))
		}},
		{"average pool", []int{2, 1, 4, 4}, func(x *gorgonia.Node) *gorgonia.Node {
			y := nn.Conv2D(x, "conv", nn.Conv2DConfig{Filters: 3, Kernel: nn.Square(1)})
			return nn.Softmax(nn.GlobalAvgPool2D(nn.AvgPool2D(y, nn.PoolConfig{Kernel: nn.Square(2)})))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			nn.Configure(g, nn.GraphConfig{Float64: true, Seed: 4})
			x := nn.Input(g, "x", c.image...)
			r, err := ref.New(nn.SoftmaxCrossEntropy(c.model(x), nn.Labels(g, "labels", 2)))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			set(t, r, "x", noise(x.Shape().TotalSize(), 5))
			set(t, r, "labels", []float64{2, 0})
			if len(g.ByName("ids")) > 0 {
				set(t, r, "ids", []float64{1, 3, 1, 0, 0, 2})
			}
			if err := r.CheckGradients(1, small, 1e-4); err != nil {
				t.Error(err)
			}
		})
	}
}
