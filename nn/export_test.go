package nn

import "gorgonia.org/gorgonia"

// MachineMemory is machineMemory.
var MachineMemory = machineMemory

// TurnFrom is Rotary whose first position is an input.
func TurnFrom(x *gorgonia.Node, cfg RotaryConfig, first *gorgonia.Node) *gorgonia.Node {
	return cfg.turn("Rotary", x, x.Shape()[2], 0, first)
}
