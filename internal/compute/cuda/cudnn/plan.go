package cudnn

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
)

// A Plan is one engine's way to answer a question about convolutions. It is built when it was
// compiled and may run.
type Plan struct {
	plan
	op   Op
	conv Conv
}

// Conv is the question. Its Weight is the type that Run expects for w: of the plans for a gradient
// in Float32 from 16-bit operands some may have the 16-bit type (see Handle.BackwardWeightAny).
func (p *Plan) Conv() Conv { return p.conv }

// Op is the pass.
func (p *Plan) Op() Op { return p.op }

// plan is what all plans have in common: an engine with its graph, or a call of the older
// interface.
type plan struct {
	h     *Handle
	graph *graph
	engine

	// legacy is in place of graph and engine.
	legacy *legacyPlan

	built     bool
	closed    bool
	execution descriptor
	workspace int64
	packs     []pack

	// values are what the operands by value point to.
	values *[maxValues]float32

	uses uint64
}

const (
	maxValues = 4 // operands by value of a plan

	// maxPacks is how many variant packs a plan keeps, one for each set of pointers.
	maxPacks = 16
)

// A pack is a finished variant pack: which memory each operand has.
type pack struct {
	pointers  []uintptr
	workspace drv.Ptr
	d         descriptor
	used      uint64
}

// Engine names the engine and its settings: the same name is the same engine as long as library and
// device are the same.
func (p *plan) Engine() string { return p.name }

// Mode says which of the heuristics proposed the engine.
func (p *plan) Mode() Mode { return p.mode }

// Notes are what the library says of the engine's numbers.
func (p *plan) Notes() []Note { return slices.Clone(p.notes) }

// Compiled reports whether the library compiles the engine when a plan is built, at each start of a
// program anew.
func (p *plan) Compiled() bool { return p.compiled }

// Workspace is the bytes of scratch memory that Run wants. It is known once the plan is built.
func (p *plan) Workspace() int64 { return p.workspace }

// Build compiles the plan, which may take from milliseconds to seconds. It does nothing if that was
// done. An engine that cannot do it after all answers ErrNotSupported.
func (p *plan) Build() error {
	if p.closed {
		return fmt.Errorf("cudnn: build %s: the plan is closed", p.name)
	}
	if p.built {
		return nil
	}
	if p.legacy == nil {
		execution, workspace, err := p.h.compile(p.engine, p.graph.what)
		if err != nil {
			return err
		}
		p.execution, p.workspace = execution, workspace
	}
	if p.workspace > p.h.MaxWorkspace {
		err := p.h.tooMuch(p.name+" for "+p.what(), p.workspace)
		if p.legacy == nil {
			err = errors.Join(err, p.h.destroy(p.execution))
			p.execution = 0
		}
		return err
	}
	p.built = true
	return nil
}

func (p *plan) what() string {
	if p.legacy != nil {
		return p.legacy.what
	}
	return p.graph.what
}

// Close releases the plan. Its work must be done, graphs captured from it included.
func (p *plan) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	if p.legacy != nil {
		return p.legacy.close()
	}
	var errs []error
	for _, k := range p.packs {
		errs = append(errs, p.h.destroy(k.d))
		p.h.packs--
	}
	p.packs = nil
	errs = append(errs, p.h.destroy(p.execution), p.h.destroy(p.config), p.graph.release())
	return errors.Join(errs...)
}

// Run enqueues the plan on s. The operands are those of the pass: x or dx, w or dw, y or dy; the
// one that is not read is written. workspace has at least Workspace bytes, and nothing else may use
// it until the work is done.
func (p *Plan) Run(s drv.Stream, workspace, x, w, y drv.Ptr) error {
	if p.legacy != nil {
		if err := p.ready(workspace); err != nil {
			return err
		}
		for i, ptr := range [...]drv.Ptr{x, w, y} {
			if err := checkPointer(ptr, convAlignment, [...]string{"x", "w", "y"}[i], p.name, p.legacy.what); err != nil {
				return err
			}
		}
		return p.legacy.run(s, workspace, x, w, y)
	}
	return p.run(s, workspace, x, w, y)
}

// ready is an error unless the plan may run.
func (p *plan) ready(workspace drv.Ptr) error {
	switch {
	case p.closed:
		return fmt.Errorf("cudnn: run %s for %s: the plan is closed", p.name, p.what())
	case !p.built:
		return fmt.Errorf("cudnn: run %s for %s: the plan is not built", p.name, p.what())
	case p.workspace > 0 && workspace == 0:
		return fmt.Errorf("cudnn: run %s for %s: there is no workspace, and the plan wants %d bytes", p.name, p.what(), p.workspace)
	}
	return nil
}

func checkPointer(ptr drv.Ptr, aligned int64, name, engine, what string) error {
	if ptr == 0 || int64(ptr)%aligned != 0 {
		return fmt.Errorf("cudnn: run %s for %s: %s lies at %#x, want an address that is not 0 and a multiple of %d", engine, what, name, uint64(ptr), aligned)
	}
	return nil
}

// run gives the operands of the graph that are not by value their memory, in the order of the
// graph's tensors, and enqueues.
func (p *plan) run(s drv.Stream, workspace drv.Ptr, pointers ...drv.Ptr) error {
	if err := p.ready(workspace); err != nil {
		return err
	}
	h := p.h
	k, err := p.pack(workspace, pointers)
	if err != nil {
		return err
	}
	if err := h.setStreamTo(s); err != nil {
		return err
	}
	if status := Status(h.caller.Call(h.fn.execute, h.handle, uintptr(p.execution), uintptr(k))); status != 0 {
		return h.failed("cudnnBackendExecute", p.name+" for "+p.graph.what, status)
	}
	return nil
}

// pack finds or makes the variant pack for these pointers.
func (p *plan) pack(workspace drv.Ptr, pointers []drv.Ptr) (descriptor, error) {
	p.uses++
	for i := range p.packs {
		if k := &p.packs[i]; k.workspace == workspace && slices.EqualFunc(k.pointers, pointers, func(a uintptr, b drv.Ptr) bool { return a == uintptr(b) }) {
			k.used = p.uses
			return k.d, nil
		}
	}
	d, err := p.newPack(workspace, pointers)
	if err != nil {
		return 0, err
	}
	k := pack{workspace: workspace, d: d, used: p.uses}
	for _, ptr := range pointers {
		k.pointers = append(k.pointers, uintptr(ptr))
	}
	return d, p.keep(k)
}

// keep remembers a pack. Of more than maxPacks, the one that was used longest ago makes room:
// execute has read it, and nothing enqueued needs it.
func (p *plan) keep(k pack) error {
	if len(p.packs) < maxPacks {
		p.packs = append(p.packs, k)
		p.h.packs++
		return nil
	}
	oldest := 0
	for i := range p.packs {
		if p.packs[i].used < p.packs[oldest].used {
			oldest = i
		}
	}
	err := p.h.destroy(p.packs[oldest].d)
	p.packs[oldest] = k
	return err
}

// newPack makes a variant pack.
func (p *plan) newPack(workspace drv.Ptr, pointers []drv.Ptr) (descriptor, error) {
	h, what := p.h, p.name+" for "+p.graph.what
	ids, addresses, err := p.addresses(what, pointers)
	if err != nil {
		return 0, err
	}
	d, err := h.create(packDescriptor, what)
	if err != nil {
		return 0, err
	}
	err = h.setInts(d, attrPackUniqueIDs, typeInt64, what, ids...)
	if err == nil {
		err = h.setInts(d, attrPackDataPointers, typePointer, what, addresses...)
	}
	if err == nil {
		err = h.setInts(d, attrPackWorkspace, typePointer, what, int64(workspace))
	}
	if err == nil {
		err = h.finalize(d, packDescriptor, what)
	}
	if err != nil {
		return 0, errors.Join(err, h.destroy(d))
	}
	return d, nil
}

// addresses are the graph's tensors and where each lies: at the next of the pointers or, of a number
// that the host passes, among the plan's values.
func (p *plan) addresses(what string, pointers []drv.Ptr) (ids, addresses []int64, err error) {
	next, values := 0, 0
	for _, o := range p.graph.tensors {
		ids = append(ids, o.uid)
		if o.byValue {
			if p.values == nil || values == maxValues {
				return nil, nil, fmt.Errorf("cudnn: run %s: no value for %s", what, o.name)
			}
			addresses = append(addresses, int64(uintptr(unsafe.Pointer(&p.values[values]))))
			values++
			continue
		}
		if next == len(pointers) {
			return nil, nil, fmt.Errorf("cudnn: run %s: got %d pointers, want one for %s too", what, len(pointers), o.name)
		}
		if err := checkPointer(pointers[next], o.aligned, o.name, p.name, p.graph.what); err != nil {
			return nil, nil, err
		}
		addresses = append(addresses, int64(pointers[next]))
		next++
	}
	if next != len(pointers) {
		return nil, nil, fmt.Errorf("cudnn: run %s: got %d pointers, want %d", what, len(pointers), next)
	}
	return ids, addresses, nil
}
