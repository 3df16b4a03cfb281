package nn_test

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/nn"
	"gorgonia.org/gorgonia"
)

// What no machine has room for is an error, as far as the machine says what it has.
func TestCompileRefusesWhatTheMachineHasNoMemoryFor(t *testing.T) {
	if nn.MachineMemory() == 0 {
		t.Skip("this system does not say how much memory it has")
	}
	for name, batch := range map[string]int{"inputs": 1 << 40, "what is between operations": int(nn.MachineMemory() / 4096)} {
		g := gorgonia.NewGraph()
		x := nn.Input(g, "x", batch, 8)
		loss := nn.MSE(nn.MLP(x, nn.MLPConfig{Hidden: []int{4096, 4096}, Classes: 1}), nn.Input(g, "t", batch, 1))
		if _, err := nn.Compile(loss, nn.Config{}); err == nil || !strings.Contains(err.Error(), "this machine has") {
			t.Errorf("%s: got error %v, want one that says what this machine has", name, err)
		}
	}
}
