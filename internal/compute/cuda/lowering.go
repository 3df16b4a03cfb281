package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A launch puts work on a stream.
type launch func(s drv.Stream) error

// lowered is an op of the plan that is ready but for its memory: bind is called when all memory has
// its place, and again whenever the shared memory moves.
type lowered struct {
	// scratch is the bytes of the arena for this op alone.
	scratch int64

	// workspace is the bytes of the libraries' workspace, which all ops share.
	workspace int64

	bind func() []launch
	work []launch
}

// A lowerer prepares one op.
type lowerer func(l *lowering) (lowered, error)

// A lowerers has the lowerer of each kind of op that a family knows.
type lowerers map[plan.Kind]lowerer

// A lowering is what a family makes the launches of one op with: places of values, scratch memory,
// and values in another type or order than they lie in.
type lowering struct {
	o      *plan.Op
	gpu    *GPU
	typ    Compute
	places *places
	forms  *weightForms

	scratch   int64
	workspace int64

	// before are launches that arguments need first, made when memory has its place.
	before []func() launch
}

// at is where a value lies.
func (l *lowering) at(v *plan.Value) drv.Ptr { return l.places.at(v) }

// place is at, to be asked once memory has its place.
func (l *lowering) place(v *plan.Value) func() drv.Ptr {
	return func() drv.Ptr { return l.places.at(v) }
}

// workspaceAt is where the libraries' workspace lies.
func (l *lowering) workspaceAt() drv.Ptr { return l.places.store.workspace.device }

// room takes scratch memory; the function gives its place once the plan is placed.
func (l *lowering) room(bytes int64) func() drv.Ptr {
	at := l.scratch
	l.scratch += (bytes + 255) / 256 * 256
	return func() drv.Ptr { return l.places.store.arena.device + drv.Ptr(l.o.ScratchOffset+at) }
}

// done makes an op of launches that are made when memory has its place.
func (l *lowering) done(launches ...func() launch) lowered {
	all := append(l.before, launches...)
	return lowered{scratch: l.scratch, workspace: l.workspace, bind: func() []launch {
		out := make([]launch, len(all))
		for i, f := range all {
			out[i] = f()
		}
		return out
	}}
}
