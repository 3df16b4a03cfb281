package nn

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/compute/cpu"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
	"github.com/paragon-train/paragon/internal/compute/pool"
	"github.com/paragon-train/paragon/internal/compute/translate"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"gorgonia.org/gorgonia"
)

// Config says how a graph is compiled. The zero value trains on the CPU with all of its threads.
type Config struct {
	// Device is where the program runs: "cpu:0" (also "" and "cpu"; further numbers are further
	// programs on the same CPU), or "cuda:0", the first of the NVIDIA GPUs that this process
	// may use. See Devices.
	Device string
	// DType is the type of numbers in which products are computed. The zero value is Float32 on
	// a CPU, which also has BFloat16, and BFloat16 on a GPU.
	DType DType
	// Threads is the number of threads that compute; 0 is GOMAXPROCS, or with Share those of
	// that program. Not for GPUs.
	Threads int
	// Inference compiles an evaluation: batch normalisation from the running statistics, no
	// dropout, no gradients. The root may then be any node.
	Inference bool
	// Share makes the program one of several for the same model, such as for other batch sizes,
	// or for evaluation. They share parameters and running statistics, by their names; threads;
	// and the memory of values between operations, which is as large as the largest of them
	// needs. Programs for training also share gradients, SetStep, SetGradScale and
	// SetLossScale, so that steps on any of them are the steps of one training; they have the
	// same parameters in the same order, one DType and one Seed (0: those of Share). Inputs,
	// outputs, losses and SetExamples are each program's own. The device is the same. One of
	// the programs runs at a time, and they may be closed in any order.
	Share *Program
	// MomentumBatch is the batch size that the Momentum of normalisations is for. A program of
	// another one weighs a batch as many of that size, one after the other: with 1 − (1 −
	// Momentum)^(batch/MomentumBatch), so that running statistics reach back as many examples
	// whichever of the programs that share runs. 0: each batch weighs Momentum.
	MomentumBatch int
	// Outputs are further nodes whose values Program.Output gives.
	Outputs gorgonia.Nodes
	// Params are the leaves that get gradients; nil is all that are parameters (see Parameters)
	// and that the root depends on. Parameters left out keep their values.
	Params gorgonia.Nodes
	// Freeze are patterns of names, as path.Match takes them ("layer1.*", "*.bias"); one that
	// begins with "!" takes names out again, so that "*", "!fc.*" freezes all but fc.
	// Parameters that match are left out of Params, get no gradient, and keep their values. The
	// backward pass ends where nothing below is trained. Running statistics are matched by
	// their names, too: a batch normalisation whose name.running_mean matches normalises by its
	// running statistics, as in an evaluation, and does not change them. So "layer1.*" freezes
	// all of a layer, and "layer1.*.weight" leaves its statistics moving. A pattern that
	// matches nothing is an error. nil: those of the program to share with. In inference it
	// says nothing. See Program.Frozen.
	Freeze []string
	// GradScale multiplies all gradients; 0 is 1. See Program.SetGradScale.
	GradScale float32
	// OwnMask: the graph itself leaves padding out of its loss, for example by a mask input of
	// the caller's, so a run may have any number of examples (see Program.SetExamples). Losses
	// and batch normalisations then use all rows.
	OwnMask bool
	// Seed makes replicas differ: programs with another Seed drop other elements in Dropout.
	Seed uint64
	// Recompute lets the backward pass compute normalised rows (LayerNorm, RMSNorm), activations
	// and SwiGLU in front of linear layers again, where it would have to keep them from the
	// forward pass. A transformer without dropout in front of these layers needs some 30 % less
	// memory for values between operations, and its step takes about 1 % longer in float32.
	// Numbers are the same, to the bit. Not for GPUs.
	Recompute bool
}

// maxThreads is the largest number that is not taken for a mistake.
const maxThreads = 4096

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	device, err := parseDevice(c.Device)
	switch {
	case err != nil:
		return err
	case c.DType > Float16:
		return fmt.Errorf("nn: Config.DType is %v, want one of %v", c.DType, dtypeNames)
	case !device.gpu && c.DType > BFloat16:
		return fmt.Errorf("nn: Config.DType is %v with Config.Device %q, want %v or %v: a CPU does not compute with it", c.DType, c.Device, Float32, BFloat16)
	case c.Threads < 0 || c.Threads > maxThreads:
		return fmt.Errorf("nn: Config.Threads is %d, want 0 to %d", c.Threads, maxThreads)
	case c.Recompute && device.gpu:
		return fmt.Errorf("nn: Config.Recompute with Config.Device %q, want a CPU", c.Device)
	case c.MomentumBatch < 0:
		return fmt.Errorf("nn: Config.MomentumBatch is %d, want at least 1, or 0 for the Momentum as it is", c.MomentumBatch)
	case c.Share != nil && c.Share.executor == nil:
		return errors.New("nn: Config.Share is a closed program")
	case c.Share != nil && (device.gpu || c.Share.device.gpu) && device != c.Share.device:
		return fmt.Errorf("nn: Config.Share is a program on %v, want one on %v", c.Share.device, device)
	}
	return nil
}

// Compile compiles the graph of root, a loss, for a device, forward and backward, and allocates all
// memory. It adds the gradients' nodes to the graph. If it has to replace gorgonia's ops it makes a
// second graph, which shares the values of leaves with the first (package translate); nodes of the
// user's graph still name outputs and parameters.
//
// Parameters are in the memory of their leaves' values, so a graph shows what its program has
// learned, and two programs of one graph share them. With Config.Share the graph's own values are
// not used: its leaves get those of the program to share with, unless another program uses the
// leaves' own. After an error the program to share with, and those that share with it already, are
// as before. A leaf's value must not be replaced (gorgonia.Let) while a program uses it. For a GPU
// the values of leaves are moved to memory that it can copy from: to share values between a GPU and
// a CPU program, compile for the GPU first.
//
// An error that follows from the graph and cfg alone, such as a pattern of Config.Freeze that
// matches nothing, is kvstore.ErrFinal: no restart can mend it.
func Compile(root *gorgonia.Node, cfg Config) (*Program, error) {
	if root == nil {
		return nil, errors.New("nn: compile: the root is nil")
	}
	if err := cfg.Validate(); err != nil {
		return nil, exitreport.Final(exitreport.Usage, err)
	}
	prog := &Program{outputs: make(map[*gorgonia.Node]*plan.Value)}
	if err := prog.open(cfg); err != nil {
		return nil, fmt.Errorf("nn: compile: %w", err)
	}
	if err := prog.compile(root, cfg); err != nil {
		return nil, fmt.Errorf("nn: compile %q: %w", root.Name(), errors.Join(err, prog.Close()))
	}
	p := prog.plan
	if cfg.GradScale != 0 {
		prog.SetGradScale(cfg.GradScale)
	}
	for i, n := range cfg.Outputs {
		prog.outputs[n] = p.Outputs[i]
	}
	prog.outputs[root] = p.Loss
	prog.list()
	if first := prog.shared.first; first != nil {
		prog.adopt(first)
	}
	return prog, nil
}

func (p *Program) open(cfg Config) (err error) {
	if p.device, err = parseDevice(cfg.Device); err != nil {
		return err
	}
	p.join(cfg.Share)
	if p.device.gpu && cfg.Share == nil {
		return p.openGPU()
	}
	return nil
}

// compile makes the plan and its executor.
func (p *Program) compile(root *gorgonia.Node, cfg Config) error {
	// alike is what a further program for training must be like.
	var alike *trained
	if !cfg.Inference {
		alike = p.shared.trained
	}
	if alike != nil {
		var err error
		if cfg, err = alike.config(cfg); err != nil {
			return exitreport.Final(exitreport.Usage, err)
		}
	}
	cfg.DType = cfg.DType.on(p.device)
	if err := p.lower(root, cfg, alike); err != nil {
		return exitreport.Final(exitreport.Usage, err)
	}
	if err := checkMemory(p.plan, alike != nil); err != nil {
		return err
	}
	logSlow(p.plan, p.graph)
	var err error
	if p.host, err = newHost(p.plan, p.graph, cfg.Share, p.device.gpu); err != nil {
		return err
	}
	p.padding = p.plan.Padding(p.host, &p.examples)
	p.findLabels()
	if p.device.gpu {
		err = p.onGPU(cfg)
	} else {
		err = p.onCPU(cfg)
	}
	if err != nil {
		return err
	}
	if cfg.Share != nil {
		err = p.showShared()
	} else {
		op.RegistryOf(p.graph).Use()
	}
	if err == nil && !cfg.Inference && alike == nil {
		blocks := p.host.Blocks
		p.shared.trained = &trained{params: p.plan.Params, grads: p.host.Grads, block: blocks[len(blocks)-1], seed: cfg.Seed, dtype: cfg.DType, freeze: cfg.Freeze}
	}
	return err
}

// lower makes the plan. Its errors follow from the graph and the configuration alone.
func (p *Program) lower(root *gorgonia.Node, cfg Config, alike *trained) error {
	request, err := newRequest(root, cfg, p.device)
	if err != nil {
		return err
	}
	p.graph = request.Root.Graph()
	if !cfg.OwnMask {
		p.examples = plan.FindExamples(request.Root, request.Outputs, cfg.Inference)
	}
	p.freezes = request.freezes
	request.Batch, p.there = p.examples.Batch, p.examples.Batch
	if p.plan, err = plan.Build(request.Request); err != nil {
		return err
	}
	if cfg.MomentumBatch > 0 {
		if p.examples.Batch == 0 {
			return fmt.Errorf("Config.MomentumBatch is %d, and the program's batch size is not known (see Program.Batch); want 0", cfg.MomentumBatch)
		}
		weighBatches(p.plan, float64(p.examples.Batch)/float64(cfg.MomentumBatch))
	}
	if alike != nil {
		if err := alike.check(p.plan.Params); err != nil {
			return err
		}
	}
	return checkLone(p.plan)
}

func (p *Program) onCPU(cfg Config) (err error) {
	c := cpu.Config{Room: machineMemory(), Stream: cfg.Seed, BFloat16: cfg.DType == BFloat16}
	if cfg.Share != nil && (cfg.Threads == 0 || cfg.Threads == cfg.Share.threads.Threads()) {
		p.threads = cfg.Share.threads
	} else {
		p.threads = &threads{Pool: pool.New(cfg.Threads)}
	}
	p.threads.users++
	if c.Pool = p.threads.Pool; cfg.Share != nil {
		c.Share = cfg.Share.executor.(*cpu.Executor)
	}
	e, err := cpu.New(p.plan, p.host, c)
	if err == nil {
		p.executor = e
	}
	return err
}

// A request is what a plan is to compute, with the names of what is frozen.
type request struct {
	plan.Request
	freezes map[string]bool
}

// newRequest translates the graph and differentiates it, unless it is for inference.
func newRequest(root *gorgonia.Node, cfg Config, device device) (request, error) {
	for i, n := range cfg.Outputs {
		if n == nil || n.Graph() != root.Graph() {
			return request{}, fmt.Errorf("output %d is not a node of the root's graph", i)
		}
	}
	graph, err := translate.Of(!cfg.Inference, append(gorgonia.Nodes{root}, cfg.Outputs...)...)
	if err != nil {
		return request{}, err
	}
	// On a GPU the executor chooses the types. A CPU whose products are those of float32 stores
	// images as float32, too.
	r := request{Request: plan.Request{Root: graph.Node(root), Inference: cfg.Inference, BFloat16: cfg.DType == BFloat16 && !device.gpu && f32.StoresBFloat16(), Tables: !device.gpu, Residuals: device.gpu, Recompute: cfg.Recompute}}
	for _, n := range cfg.Outputs {
		r.Outputs = append(r.Outputs, graph.Node(n))
	}
	reached := reachable(append(gorgonia.Nodes{r.Root}, r.Outputs...))
	if err := checkNames(graph.ExprGraph(), reached); err != nil {
		return r, err
	}
	if cfg.Inference {
		for _, n := range Parameters(graph.ExprGraph()) {
			if reached[n] {
				r.Params = append(r.Params, n)
			}
		}
		return r, nil
	}
	params, grads, err := op.Gradients(r.Root)
	if err != nil {
		return r, err
	}
	r.Params, r.Grads, r.Seed = params, grads, r.Root.Deriv()
	if cfg.Params == nil {
		return r, r.freeze(cfg.Freeze)
	}
	gradient := make(map[*gorgonia.Node]*gorgonia.Node)
	for i, p := range params {
		gradient[p] = grads[i]
	}
	r.Params, r.Grads = nil, nil
	for _, p := range cfg.Params {
		of := graph.Node(p)
		if gradient[of] == nil && of != nil && op.IsUnset(of) {
			return r, fmt.Errorf("Config.Params: %q has no value; give parameters their values (gorgonia.WithInit, WithValue or Let) before Compile", p.Name())
		}
		if gradient[of] == nil {
			return r, fmt.Errorf("Config.Params: %q is not a parameter that the loss depends on", p.Name())
		}
		r.Params, r.Grads = append(r.Params, of), append(r.Grads, gradient[of])
	}
	return r, r.freeze(cfg.Freeze)
}

// checkNames returns an error if two leaves of a program have the same name: values are stored,
// shared and filled by name.
func checkNames(g *gorgonia.ExprGraph, reached map[*gorgonia.Node]bool) error {
	named := make(map[string]op.Leaf)
	for _, l := range op.Leaves(g) {
		if !reached[l.Node] {
			continue
		}
		if other, taken := named[l.Node.Name()]; taken {
			return fmt.Errorf("two leaves are called %q: a %v of shape %v and a %v of shape %v; give each a name of its own (gorgonia.WithName)",
				l.Node.Name(), other.Role, other.Node.Shape(), l.Role, l.Node.Shape())
		}
		named[l.Node.Name()] = l
	}
	return nil
}

// reachable is the set of nodes that the given ones are computed from, themselves included.
func reachable(nodes gorgonia.Nodes) map[*gorgonia.Node]bool {
	seen := make(map[*gorgonia.Node]bool)
	for len(nodes) > 0 {
		n := nodes[len(nodes)-1]
		nodes = nodes[:len(nodes)-1]
		if !seen[n] {
			seen[n] = true
			nodes = append(nodes, op.Children(n)...)
		}
	}
	return seen
}
