package tune

import (
	"fmt"
	"math"
	"slices"
)

// A Kind says what values a parameter takes.
type Kind string

// The kinds of parameters.
const (
	// KindReal is a float64 in [Low, High].
	KindReal Kind = "real"
	// KindInt is an int64 in [Low, High], both included.
	KindInt Kind = "int"
	// KindBool is false or true.
	KindBool Kind = "bool"
	// KindChoice is one of Values.
	KindChoice Kind = "choice"
	// KindNormal is a float64 that is normally distributed, KindLogNormal one whose logarithm
	// is.
	KindNormal    Kind = "normal"
	KindLogNormal Kind = "lognormal"
	// KindGrid is every one of Values: an axis of the grid.
	KindGrid Kind = "grid"
	// KindDerived is a function of the parameters before it.
	KindDerived Kind = "derived"
)

// A Spec describes a parameter. Suggesters read it; users make it with Real, Int,
// Choice and so on.
type Spec struct {
	Name string
	Kind Kind
	// Low and High are the bounds of a real or an int, both included.
	Low, High float64
	// Log makes the logarithm uniform, not the value.
	Log bool
	// Step above 0 leaves the values Low, Low+Step, ... up to High (for a normal
	// one: the multiples of Step). Of an int it is at least 1.
	Step float64
	// Mean and Deviation are those of a normal parameter, and of the logarithm of a log-normal
	// one.
	Mean, Deviation float64
	// Values are those of a choice, of a grid axis and of a bool.
	Values []any
	// Default is the value that is tried first if Config.DefaultFirst is set.
	// Nil is the middle of the range (of the logarithms, if Log), the mean, false,
	// the first choice.
	Default any
	// Parent, if not "", is the parameter this one depends on: it is active only if the
	// parent is active and has one of ParentValues.
	Parent       string
	ParentValues []any
	// Derive computes a derived parameter of those that come before it.
	Derive func(Params) any
}

// A Param is one parameter of a Space. Its methods return a changed copy, so
// they can be chained.
type Param struct {
	Spec
	// err is what a method of Param has refused. Validate tells.
	err error
}

// Real is a number in [low, high].
func Real(name string, low, high float64) Param {
	return Param{Spec: Spec{Name: name, Kind: KindReal, Low: low, High: high}}
}

// Int is an integer from low to high, both included.
func Int(name string, low, high int) Param {
	return Param{Spec: Spec{Name: name, Kind: KindInt, Low: float64(low), High: float64(high), Step: 1}}
}

// Bool is false or true.
func Bool(name string) Param {
	return Param{Spec: Spec{Name: name, Kind: KindBool, Values: []any{false, true}}}
}

// Choice is one of the values, each as likely: texts, truth values, integers,
// floats, also mixed.
func Choice(name string, values ...any) Param {
	return Param{Spec: Spec{Name: name, Kind: KindChoice}}.withValues(values)
}

// Grid is an axis of the grid: all its values are tried, not sampled. Several axes
// make their product, the last axis fastest. A study has as many trials as samples
// times points of the grid; the other parameters are proposed for each trial.
func Grid(name string, values ...any) Param {
	return Param{Spec: Spec{Name: name, Kind: KindGrid}}.withValues(values)
}

// Normal is a normally distributed number.
func Normal(name string, mean, deviation float64) Param {
	return Param{Spec: Spec{Name: name, Kind: KindNormal, Mean: mean, Deviation: deviation}}
}

// LogNormal is a positive number whose logarithm is normally distributed, with
// this mean and deviation of the logarithm.
func LogNormal(name string, mean, deviation float64) Param {
	return Param{Spec: Spec{Name: name, Kind: KindLogNormal, Mean: mean, Deviation: deviation}}
}

// Derived is computed from the parameters before it in the space. It is not searched,
// but is part of the parameters. derive must be a pure function.
func Derived(name string, derive func(Params) any) Param {
	return Param{Spec: Spec{Name: name, Kind: KindDerived, Derive: derive}}
}

// Range are the integers from low to below high in steps, to be handed to
// Choice or Grid: tune.Choice("batch", tune.Range(64, 1024, 64)...).
func Range(low, high, step int) []any {
	var values []any
	for v := low; step > 0 && v < high; v += step {
		values = append(values, int64(v))
	}
	return values
}

// fail keeps the first thing that is wrong with a parameter. Space.Validate returns it: options are
// written in a chain, which has no place for an error.
func (p Param) fail(format string, args ...any) Param {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return p
}

// withValues normalises values. Numbers that are partly floats all become floats.
func (p Param) withValues(values []any) Param {
	p.Values = make([]any, len(values))
	floats, numbers := 0, 0
	for i, v := range values {
		n, err := normal(v)
		if err != nil {
			return p.fail("%w", err)
		}
		p.Values[i] = n
		switch n.(type) {
		case float64:
			floats, numbers = floats+1, numbers+1
		case int64:
			numbers++
		}
	}
	if floats > 0 && floats < numbers {
		for i, v := range p.Values {
			if n, ok := v.(int64); ok {
				p.Values[i] = float64(n)
			}
		}
	}
	return p
}

// Log makes the logarithm uniform; Low must be above 0.
func (p Param) Log() Param {
	if p.Kind != KindReal && p.Kind != KindInt {
		return p.fail("Log is for reals and ints, not for a %s", p.Kind)
	}
	p.Spec.Log = true
	return p
}

// Quantise leaves the values low, low+q, low+2q ... up to high; of a normal
// parameter the multiples of q.
func (p Param) Quantise(q float64) Param {
	if p.Kind != KindReal && p.Kind != KindNormal && p.Kind != KindLogNormal {
		return p.fail("Quantise is for reals and normals, not for a %s", p.Kind)
	}
	if !(q > 0) || math.IsInf(q, 0) {
		return p.fail("Quantise(%v): want a number above 0", q)
	}
	p.Spec.Step = q
	return p
}

// Step leaves every k-th integer, from low.
func (p Param) Step(k int) Param {
	if p.Kind != KindInt {
		return p.fail("Step is for ints, not for a %s", p.Kind)
	}
	if k < 1 {
		return p.fail("Step(%d): want 1 or more", k)
	}
	p.Spec.Step = float64(k)
	return p
}

// Default is the value that is tried first if Config.DefaultFirst is set.
func (p Param) Default(value any) Param {
	v, err := normal(value)
	if err != nil {
		return p.fail("default: %w", err)
	}
	p.Spec.Default = v
	return p
}

// When makes the parameter conditional: it is active only if parent, which comes
// before it in the space, is active and has one of the values.
func (p Param) When(parent string, values ...any) Param {
	p.Parent, p.ParentValues = parent, nil
	for _, v := range values {
		n, err := normal(v)
		if err != nil {
			return p.fail("When(%q): %w", parent, err)
		}
		p.ParentValues = append(p.ParentValues, n)
	}
	if len(values) == 0 {
		return p.fail("When(%q): got no values", parent)
	}
	return p
}

// Searched says whether a suggester proposes the value. It does not for a derived
// parameter and for an axis of the grid.
func (s Spec) Searched() bool { return s.Kind != KindDerived && s.Kind != KindGrid }

// Active says whether the parameter is active, given those before it.
func (s Spec) Active(before Params) bool {
	if s.Parent == "" {
		return true
	}
	v, ok := before.Get(s.Parent)
	return ok && slices.ContainsFunc(s.ParentValues, func(w any) bool { return equalNumbers(v, w) })
}

// equalNumbers is equality with 1 and 1.0 the same.
func equalNumbers(a, b any) bool {
	if sameValue(a, b) {
		return true
	}
	x, ok := number(a)
	y, also := number(b)
	return ok && also && x == y
}

// number is a value as a number. ok is false for texts and bools.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	default:
		return 0, false
	}
}
