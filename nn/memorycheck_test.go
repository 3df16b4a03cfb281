package nn_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// Inputs that no machine has room for are an error, as far as the machine says what it has.
func TestCompileRefusesInputsThatTheMachineHasNoMemoryFor(t *testing.T) {
	if nn.MachineMemory() == 0 {
		t.Skip("this system does not say how much memory it has")
	}
	g := gorgonia.NewGraph()
	x := nn.Input(g, "x", 1<<40, 8)
	loss := nn.MSE(nn.Softmax(x), nn.Input(g, "t", 1<<40, 8))
	if _, err := nn.Compile(loss, nn.Config{Inference: true}); err == nil || !strings.Contains(err.Error(), "this machine has") {
		t.Errorf("got error %v, want one that says what this machine has", err)
	}
}
