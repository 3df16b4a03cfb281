package nn_test

import (
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/paragon-train/paragon/nn"
)

// Row numbers are filled through IDs; padding is a row that there is, so a short batch runs.
func TestIDsAreFilledWithPaddingThatRuns(t *testing.T) {
	g := gorgonia.NewGraph()
	tokens, labels := nn.IDs(g, "tokens", 4), nn.Labels(g, "labels", 4)
	loss := nn.SoftmaxCrossEntropy(nn.Embedding(tokens, "table", nn.EmbeddingConfig{Rows: 5, Dim: 3}), labels)
	p, err := nn.Compile(loss, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ids, err := p.IDs("tokens")
	if err != nil || ids.Len() != 4 {
		t.Fatalf("got %d ids and error %v, want 4", ids.Len(), err)
	}
	classes, _ := p.Labels("labels")
	ids.Set([]int32{4, 3, 2, 1})
	ids.Set([]int32{4, 3})
	classes.Set([]int32{0, 1})
	if in, _ := p.InputTensor("tokens"); !slices.Equal(in.Data().([]int32), []int32{4, 3, 0, 0}) {
		t.Errorf("tokens are %v, want 4 3 and padding of 0", in.Data())
	}
	if err := p.SetExamples(2); err != nil {
		t.Fatal(err)
	}
	step(t, p, nil)
	if _, err := p.IDs("table"); err == nil {
		t.Error("IDs of a parameter: got no error")
	}
	func() {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, "got 5 ids, want at most 4") {
				t.Errorf("too many: got panic %q", text)
			}
		}()
		ids.Set(make([]int32, 5))
	}()
}
