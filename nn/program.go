package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/internal/compute/plan"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// executor is what a program asks of a device.
//
// Run goes through the plan once and is called by one goroutine at a time; the other methods are
// called between runs.
type executor interface {
	Run(ctx context.Context, forward bool, hooks plan.Hooks) error
	Number(v *plan.Value) (float64, error)
	Output(v *plan.Value) ([]float32, error)
	SetGradScale(s float32)
	SetExamples(n int)
	SetStep(step uint64)
}

// A Program is a compiled graph. Fill its inputs, call Step, use the gradients, change the
// parameters, and again.
//
// One goroutine at a time may use a program, and one at a time those that share (Config.Share): a
// run beside another one is an error. Inputs, parameters, gradients and outputs are slices of the
// program's own memory, the same ones for its whole life.
type Program struct {
	// graph is the user's, or its translation.
	graph    *gorgonia.ExprGraph
	plan     *plan.Plan
	host     *plan.Host
	executor executor
	device   device
	// shared is what programs of the same Config.Share have in common.
	shared *shared
	// threads are those of a CPU.
	threads *threads
	outputs map[*gorgonia.Node]*plan.Value
	params  []Param
	// backward is what OnBackward has set.
	backward func()
	state    []Param
	frozen   []Param
	// freezes are names of parameters and statistics.
	freezes map[string]bool
	pixels  map[string]*Pixels
	// unset are inputs that were neither declared nor filled: see checkUnset.
	unset    []string
	examples plan.Examples
	padding  *plan.Padding
	// weighs are the labels that LossWeight counts; nil: it counts examples.
	weighs *plan.HostInput
	// classWeights are those of the loss; nil: all are 1.
	classWeights []float32
	// weighTargets is what targets of examples weigh where the loss has targets in place of
	// labels, and weighsRows the number of rows of a whole batch.
	weighTargets func(targets []float32) float64
	weighsRows   int
	// there is the number of examples of later runs.
	there int
}

// Device is what the program runs on, as in Config.Device: "cpu:0", "cuda:1".
func (p *Program) Device() string { return p.device.String() }

// Params lists the parameters in the order in which they were made. The slice is the program's own.
func (p *Program) Params() []Param { return p.params }

// State lists what a training step changes besides gradients: the running mean and variance of each
// batch normalisation, named name.running_mean and name.running_var, but for those that are frozen.
func (p *Program) State() []Param { return p.state }

// Frozen lists the parameters and running statistics that Config.Freeze leaves as they are, in the
// order in which they were made. They are neither in Params nor in State. Their values may be
// changed between steps, such as by a model that is imported.
func (p *Program) Frozen() []Param { return p.frozen }

// Input is the memory of a float32 input, row-major: (N,C,H,W) for images.
func (p *Program) Input(name string) ([]float32, error) {
	data, err := p.input(name)
	if err != nil {
		return nil, err
	}
	m, ok := data.Data.([]float32)
	if !ok {
		return nil, fmt.Errorf("nn: input %q is %v, want float32; see Labels and InputTensor", name, data.Tensor.Dtype())
	}
	return m, nil
}

// Labels is the input of int32 class labels, or row numbers, of this name.
func (p *Program) Labels(name string) (LabelInput, error) {
	data, err := p.input(name)
	if err != nil {
		return LabelInput{}, err
	}
	m, ok := data.Data.([]int32)
	if !ok {
		return LabelInput{}, fmt.Errorf("nn: labels %q are %v, want int32; see Input and InputTensor", name, data.Tensor.Dtype())
	}
	return LabelInput{m}, nil
}

// IDs is the input of int32 row numbers of this name, such as the tokens that an Embedding looks
// up. Labels gives the same memory; but padding of row numbers is 0, of labels −1.
func (p *Program) IDs(name string) (IDInput, error) {
	data, err := p.input(name)
	if err != nil {
		return IDInput{}, err
	}
	m, ok := data.Data.([]int32)
	if !ok {
		return IDInput{}, fmt.Errorf("nn: ids %q are %v, want int32; see Input and InputTensor", name, data.Tensor.Dtype())
	}
	return IDInput{m}, nil
}

// InputTensor is any input as a tensor over its memory; a scalar has the shape (1).
func (p *Program) InputTensor(name string) (*tensor.Dense, error) {
	data, err := p.input(name)
	return data.Tensor, err
}

func (p *Program) input(name string) (plan.HostInput, error) {
	var names []string
	for i, v := range p.plan.Inputs {
		if v.Name == name {
			p.unset = slices.DeleteFunc(p.unset, func(s string) bool { return s == name })
			return p.host.Inputs[i], nil
		}
		names = append(names, v.Name)
	}
	return plan.HostInput{}, fmt.Errorf("nn: the program has no input %q; it has %q", name, names)
}

// Output is the value of the root or of one of Config.Outputs after Step or Forward, row-major. It
// stays until the next.
func (p *Program) Output(n *gorgonia.Node) ([]float32, error) {
	v, ok := p.outputs[n]
	if !ok {
		return nil, fmt.Errorf("nn: node %q is not among the program's outputs; name it in Config.Outputs", n.Name())
	}
	if p.executor == nil {
		return nil, errClosed
	}
	return p.executor.Output(v)
}

// Loss is the root's value after Step or Forward; NaN if the root is not a scalar.
func (p *Program) Loss() float64 {
	if p.executor == nil {
		return math.NaN()
	}
	x, err := p.executor.Number(p.plan.Loss)
	if err != nil {
		return math.NaN()
	}
	return x
}

var errClosed = errors.New("nn: the program is closed")

// Step computes the loss, the outputs and all gradients, and updates the running statistics. ready,
// if not nil, is called once for each parameter, on this goroutine, the last layers' first, as soon
// as its gradient is final and the step reads neither it nor the value any more: both may be
// changed then. Otherwise the gradient stays until the next step.
func (p *Program) Step(ctx context.Context, ready func(i int)) error {
	return p.StepOverlapped(ctx, nil, ready)
}

// StepOverlapped is Step with a second hook: wait, if not nil, is called for each parameter before
// the forward pass first reads it, the first layers' first. So new values may still be arriving
// when the step begins. After wait(i) has returned, the value of i must not change until ready(i).
func (p *Program) StepOverlapped(ctx context.Context, wait, ready func(i int)) error {
	if p.executor == nil {
		return errClosed
	}
	if p.plan.Grads == nil {
		return errors.New("nn: step: the program was compiled for inference; use Forward")
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.end()
	return p.executor.Run(ctx, false, plan.Hooks{Wait: wait, Ready: ready, Backward: p.backward})
}

// Parallel calls f(0) to f(n-1), each once, on the program's threads, and returns when all have
// returned: for what a training loop does besides steps, such as updating the parameters piece by
// piece. It may be called between runs and in the ready hook of one; f must not use the program.
// Threads of a pool of the loop's own would have to be woken in each step, while the program's wait
// for the next one. On a GPU's program, which has no threads, the caller makes all calls. Package
// worker has no use for it: it updates parameters on the goroutines of its store, as values arrive.
func (p *Program) Parallel(n int, f func(i int)) {
	if p.threads == nil {
		for i := range n {
			f(i)
		}
		return
	}
	p.threads.Run(n, f)
}

// OnBackward makes the next steps call f, on the goroutine that runs them, when the backward pass
// begins; nil: nothing. GPUs, which get the whole step at once, do not call it, nor do joined
// programs.
func (p *Program) OnBackward(f func()) { p.backward = f }

// Forward computes the loss and the outputs only. A program compiled for training does so in
// training mode: batch normalisation uses the batch's statistics and updates the running ones, and
// the gradients of the last step are lost.
func (p *Program) Forward(ctx context.Context) error {
	if p.executor == nil {
		return errClosed
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.end()
	return p.executor.Run(ctx, true, plan.Hooks{})
}

// begin readies the inputs for a run and keeps out other runs, of this program and of those that
// share with it, until end.
func (p *Program) begin() error {
	if err := p.checkUnset(); err != nil {
		return err
	}
	if !p.shared.running.CompareAndSwap(false, true) {
		return errors.New("nn: run: the program, or one that shares memory with it, is running; one at a time may run")
	}
	p.fillWeights()
	p.sayLone()
	p.padding.Fill(p.there)
	return nil
}

func (p *Program) end() {
	p.padding.Restore()
	p.shared.running.Store(false)
}

// checkUnset returns an error if a leaf without a value was neither declared to be an input nor
// filled: it may be a parameter, which would stay zero.
func (p *Program) checkUnset() error {
	if len(p.unset) == 0 {
		return nil
	}
	return fmt.Errorf("nn: leaf %q has no value, was not declared and was not filled: if it is a parameter, give it a value (gorgonia.WithInit, WithValue or Let) before "+
		"Compile; if it is an input, fill Program.Input(%q), or declare it (DeclareInput)", p.unset[0], p.unset[0])
}

// SetGradScale multiplies the gradients of later steps by s, also those of programs that share. The
// gradient of a mean loss times what it was divided by (LossWeight) is the sum over examples, which
// adds up over workers with different numbers of them.
func (p *Program) SetGradScale(s float32) {
	if p.executor != nil {
		p.executor.SetGradScale(s)
	}
}

// SetStep sets the number of steps so far, those of programs that share included, in a run that
// resumes from a checkpoint: Dropout's masks depend on it.
func (p *Program) SetStep(step uint64) {
	if p.executor != nil {
		p.executor.SetStep(step)
	}
}

// Memory is what the program takes, with Config.Share what it took in addition: the sum over
// programs that share is what all of them take.
func (p *Program) Memory() Memory { return Memory(p.plan.Memory) }

// Plan lists the operations of a step, one a line.
func (p *Program) Plan() string { return p.plan.String() }

// Finite is false if the last step's gradients were not finite, and so all of them were set to
// zero: the step has no effect, and its examples should not be counted in a mean. It is known when
// Step first calls ready. Only programs of type Float16 check.
func (p *Program) Finite() bool {
	e, ok := p.executor.(interface{ Finite() bool })
	return !ok || e.Finite()
}

// A LossScale is the state of a program's dynamic loss scaling: the factor of the loss, and for how
// many steps in a row its gradients were finite.
type LossScale struct {
	Scale float32
	Good  int
}

// LossScale returns the scale of the next step; false if the program does not scale its loss, which
// only Float16 does.
func (p *Program) LossScale() (s LossScale, scales bool) {
	if e, ok := p.executor.(interface{ ScaleState() (float32, int, bool) }); ok {
		s.Scale, s.Good, scales = e.ScaleState()
	}
	return s, scales
}

// SetLossScale restores a LossScale, in a run that resumes from a checkpoint. A program that does
// not scale its loss ignores it.
func (p *Program) SetLossScale(s LossScale) error {
	e, ok := p.executor.(interface{ SetScaleState(float32, int) error })
	if !ok {
		return nil
	}
	return e.SetScaleState(s.Scale, s.Good)
}

// Hold promises that parameters and running statistics do not change until Hold(false), as in an
// evaluation. A device with memory of its own then copies them from the host once, not in each run.
func (p *Program) Hold(held bool) {
	if e, ok := p.executor.(interface{ Hold(held bool) }); ok {
		e.Hold(held)
	}
}

// Close frees what the program has for itself. What it shares stays until the last program that
// shares is closed, in whatever order.
func (p *Program) Close() error {
	var err error
	if c, ok := p.executor.(interface{ Close() error }); ok {
		err = c.Close()
	}
	if p.executor = nil; p.threads != nil {
		p.threads.leave()
		p.threads = nil
	}
	if p.shared != nil {
		err = errors.Join(err, p.shared.leave(p))
	}
	return err
}
