package optim

import (
	"fmt"
	"math"
)

// A State is what a rule remembers of one key (or of one shard of it): named
// arrays as long as the value. Save and load it with the value.
type State struct {
	Slots []Slot
}

// A Slot is one named array of a State.
type Slot struct {
	Name   string
	Values []float32
}

// SlotNames returns the names of a State's slots, in order:
//
//	sgd, nag, lars     momentum (none where Momentum is zero)
//	adam, adamw, lamb  mean, variance
//	adagrad            accumulator
//	rmsprop            square, then mean if Centered, then momentum if any
//	ftrl               z, n
//	test               none
func (o *Optimizer) SlotNames() []string { return append([]string(nil), o.slots...) }

// NewState returns the state before the first update of n values.
func (o *Optimizer) NewState(n int) *State {
	s := &State{}
	for _, name := range o.slots {
		values := make([]float32, n)
		if name == "accumulator" && o.cfg.InitialAccumulator != 0 {
			for i := range values {
				values[i] = float32(o.cfg.InitialAccumulator)
			}
		}
		s.Slots = append(s.Slots, Slot{Name: name, Values: values})
	}
	return s
}

// Check returns an error unless state has this optimizer's slots, each of n
// values. A nil state is good for a rule that has none.
func (o *Optimizer) Check(state *State, n int) error {
	var have []Slot
	if state != nil {
		have = state.Slots
	}
	if len(have) != len(o.slots) {
		return fmt.Errorf("optim: %s: state: got %d slots, want %d %q", o.cfg.Name, len(have), len(o.slots), o.slots)
	}
	for i, name := range o.slots {
		if have[i].Name != name || len(have[i].Values) != n {
			return fmt.Errorf("optim: %s: state: slot %d: got %q of %d values, want %q of %d",
				o.cfg.Name, i, have[i].Name, len(have[i].Values), name, n)
		}
	}
	return nil
}

// Slot returns the values of the named slot, or nil.
func (s *State) Slot(name string) []float32 {
	if s == nil {
		return nil
	}
	for _, slot := range s.Slots {
		if slot.Name == name {
			return slot.Values
		}
	}
	return nil
}

// Slice returns the state of the elements [from, to). It shares memory with s.
func (s *State) Slice(from, to int) *State {
	part := &State{Slots: make([]Slot, len(s.Slots))}
	for i, slot := range s.Slots {
		part.Slots[i] = Slot{Name: slot.Name, Values: slot.Values[from:to:to]}
	}
	return part
}

// HasSecondMoment reports whether the rule divides gradients by the root of
// their second moment: adam, adamw, lamb and rmsprop.
func (o *Optimizer) HasSecondMoment() bool {
	switch o.cfg.Name {
	case "adam", "adamw", "lamb", "rmsprop":
		return true
	}
	return false
}

// HasMeasuredUpdate reports whether passes have UpdateMeasured: of adam and
// adamw, unless gradients are clipped by their norm.
func (o *Optimizer) HasMeasuredUpdate() bool {
	return (o.cfg.Name == "adam" || o.cfg.Name == "adamw") && !o.cfg.WholeKeys() && !o.ClipsGlobalNorm()
}

// ClipsGlobalNorm reports whether passes need WithClip.
func (o *Optimizer) ClipsGlobalNorm() bool { return o.cfg.ClipGlobalNorm > 0 }

// SecondMoment returns the second moment v of state before update number step,
// from 1, and the numbers with which the rule divides a gradient by
// √v·root + ε. It is nil for a rule that has none.
func (o *Optimizer) SecondMoment(step uint64, state *State) (v []float32, root, epsilon float32) {
	if !o.HasSecondMoment() {
		return nil, 1, 0
	}
	if o.cfg.Name == "rmsprop" {
		return state.Slot("square"), 1, float32(o.cfg.Epsilon)
	}
	return state.Slot("variance"), float32(1 / math.Sqrt(1-math.Pow(o.cfg.Beta2, float64(step)))), float32(o.cfg.Epsilon)
}
