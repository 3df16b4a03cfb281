package nn

import (
	"fmt"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/plan"
)

// checkMemory returns an error if the machine lacks the memory for inputs and gradients, if these
// are not there already: allocating it would end the process.
func checkMemory(p *plan.Plan, gradients bool) error {
	values := slices.Clone(p.Inputs)
	if !gradients {
		values = append(values, p.Grads...)
	}
	var need int64
	for _, v := range values {
		need += 4 * int64(v.Len())
	}
	if have := machineMemory(); have > 0 && (need > have || need < 0) {
		return fmt.Errorf("its inputs and gradients need %.1f GB of memory, this machine has %.1f; take a smaller batch", float64(need)/1e9, float64(have)/1e9)
	}
	return nil
}
