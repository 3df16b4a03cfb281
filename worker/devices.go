package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/paragon-train/paragon/nn"
)

// devices are the programs of a worker's local devices, and the units in which gradients leave
// them.
//
// Parameters, gradients and running statistics are in the memory of own for the life of the
// Trainer. Programs of another batch size may take the place of own for some runs, and share that
// memory. So code that reads or writes values goes by own or by units, and code that runs goes by
// programs.
type devices struct {
	// own are Config.Programs, and programs those of the next run, by device.
	own, programs []*nn.Program
	units         []unit
	// group joins GPUs, so that they are one unit. It is nil where devices are on their own.
	group *nn.Group

	// counts are the examples of the run under way, and weights what its losses are divided by:
	// both by device.
	counts  []int
	weights []float64
}

// A unit is devices whose gradients come as one sum: one device, or GPUs that are joined.
type unit struct {
	// program has the unit's parameters and gradients in its memory.
	program *nn.Program
	// The unit's devices are those from first up to end, which is the next unit's first.
	first, end int
	step       func(ctx context.Context, wait, ready func(i int)) error
}

// newDevices joins the programs if they are on different GPUs: they then sum gradients among
// themselves, and the store gets one.
func newDevices(programs []*nn.Program, logger *slog.Logger) (*devices, error) {
	d := &devices{own: programs, programs: slices.Clone(programs), weights: make([]float64, len(programs))}
	if nn.Joinable(programs) {
		group, err := nn.Join(programs...)
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		d.group = group
		d.units = []unit{{programs[0], 0, len(programs), group.StepOverlapped}}
		logger.Info("GPUs joined", "how", group.String())
		return d, nil
	}
	for i, program := range programs {
		d.units = append(d.units, unit{program, i, i + 1, func(ctx context.Context, wait, ready func(i int)) error {
			return d.programs[i].StepOverlapped(ctx, wait, ready)
		}})
	}
	return d, nil
}

// params are the parameters of the first device. They have their order on all devices.
func (d *devices) params() []nn.Param { return d.own[0].Params() }

// holders are the programs whose parameters and gradients are the units'.
func (d *devices) holders() []*nn.Program {
	programs := make([]*nn.Program, len(d.units))
	for u := range d.units {
		programs[u] = d.units[u].program
	}
	return programs
}

// stateValues returns running statistic s on every device. Config.Validate has seen that all
// devices have the same ones.
func (d *devices) stateValues(s int) [][]float32 {
	values := make([][]float32, len(d.own))
	for i, program := range d.own {
		values[i] = program.State()[s].Value
	}
	return values
}

// frozenValues returns frozen array i on every device. Config.Validate has seen that all devices
// have the same ones.
func (d *devices) frozenValues(i int) [][]float32 {
	values := make([][]float32, len(d.own))
	for k, program := range d.own {
		values[k] = program.Frozen()[i].Value
	}
	return values
}

// modelArrays are the parameters and running statistics of a device.
func (d *devices) modelArrays(device int) (list [][]float32) {
	for _, p := range d.own[device].Params() {
		list = append(list, p.Value)
	}
	for _, p := range d.own[device].State() {
		list = append(list, p.Value)
	}
	return list
}

// check is an error if a run cannot have so many examples on each device.
func (d *devices) check(counts []int) error {
	if len(counts) != len(d.programs) {
		return fmt.Errorf("got counts for %d devices, want %d", len(counts), len(d.programs))
	}
	for i, n := range counts {
		if err := d.programs[i].CheckExamples(n); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
	}
	return nil
}

// begin prepares the run of a number, with so many examples on each device, and returns how many
// examples that is. It makes the devices' gradients sums: their losses are means over labels or
// examples.
func (d *devices) begin(counts []int, number uint64) (examples int, err error) {
	d.counts = counts
	for i, n := range counts {
		program := d.programs[i]
		if err := program.SetExamples(n); err != nil {
			return examples, fmt.Errorf("device %d: %w", i, err)
		}
		d.weights[i] = program.LossWeight()
		program.SetGradScale(float32(d.weights[i]))
		program.SetStep(number)
		examples += n
	}
	return examples, nil
}

// counted is what of the run under way has a part in its gradients.
func (d *devices) counted() (sum amount) {
	for u := range d.units {
		sum = sum.plus(d.countedOn(u))
	}
	return sum
}

// countedOn is what of the run under way has a part in the gradients of a unit: nothing of a device
// whose gradients were not finite.
func (d *devices) countedOn(u int) (sum amount) {
	for i := d.units[u].first; i < d.units[u].end; i++ {
		if d.programs[i].Finite() {
			sum = sum.plus(amount{d.counts[i], d.weights[i]})
		}
	}
	return sum
}

// loss is the sum of the losses of the newest run's labels or examples, and what they weigh.
func (d *devices) loss() (loss, weight float64) {
	for i, n := range d.weights {
		// The loss of nothing may be NaN.
		if n > 0 {
			loss += d.programs[i].Loss() * n
			weight += n
		}
	}
	return loss, weight
}

// use makes the next runs with other programs: see Trainer.Use.
func (d *devices) use(programs []*nn.Program) error {
	switch {
	case len(programs) != len(d.own):
		return fmt.Errorf("got programs for %d devices, want %d", len(programs), len(d.own))
	case slices.Equal(programs, d.programs):
		return nil
	case d.group != nil:
		return errors.New("the devices are GPUs that are joined, want their own programs")
	}
	for i, program := range programs {
		if err := d.fits(i, program, 0); err != nil {
			return fmt.Errorf("device %d: %w", i, err)
		}
		if s, ok := d.programs[i].LossScale(); ok {
			if err := program.SetLossScale(s); err != nil {
				return fmt.Errorf("device %d: %w", i, err)
			}
		}
	}
	d.programs = slices.Clone(programs)
	return nil
}

// fits is an error if a program does not share what a device's own has, or has another batch than
// wanted; 0: any.
func (d *devices) fits(device int, program *nn.Program, batch int) error {
	if got := program.Batch(); batch > 0 && got != batch && got != 0 {
		return fmt.Errorf("the program has batch %d, want %d", got, batch)
	}
	own := d.own[device]
	for _, list := range []struct {
		what      string
		got, want []nn.Param
	}{{"parameter", program.Params(), own.Params()}, {"running statistic", program.State(), own.State()}, {"frozen array", program.Frozen(), own.Frozen()}} {
		if len(list.got) != len(list.want) {
			return fmt.Errorf("the program has %d %ss, the trainer's has %d, want the same model", len(list.got), list.what, len(list.want))
		}
		for i, p := range list.got {
			w := list.want[i]
			if p.Name != w.Name || !sameMemory(p.Value, w.Value) || !sameMemory(p.Gradient, w.Gradient) {
				return fmt.Errorf("%s %d is %s, of the trainer's program %s, want the same one in the same memory (nn.Config.Share)", list.what, i, p.Name, w.Name)
			}
		}
	}
	return nil
}

func (d *devices) close() error {
	if d.group == nil {
		return nil
	}
	return d.group.Close()
}

func sameMemory(a, b []float32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
