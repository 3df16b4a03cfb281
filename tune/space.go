package tune

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Space is the ordered list of parameters to search. A conditional or derived
// parameter comes after those it depends on.
//
// A name may be used several times if at most one of them is active at a time:
// Real("lr", ...).When("optimizer", "sgd") and Real("lr", ...).When("optimizer", "adam").
type Space []Param

// Validate says what is wrong with the space, and with which parameter.
func (s Space) Validate() error {
	var all []error
	for i, p := range s {
		if err := s.validate(i); err != nil {
			all = append(all, fmt.Errorf("tune: space: parameter %d %q: %w", i, p.Name, err))
		}
	}
	return errors.Join(all...)
}

// validate says what is wrong with parameter i, by itself and by those before it.
func (s Space) validate(i int) error {
	p := s[i]
	if p.err != nil {
		return p.err
	}
	if err := validName(p.Name); err != nil {
		return err
	}
	for _, q := range s[:i] {
		if q.Name == p.Name && !disjoint(q.Spec, p.Spec) {
			return errors.New("the name is used twice, and not under different values of one parent")
		}
	}
	if p.Parent != "" {
		if err := s[:i].validateParent(p.Spec); err != nil {
			return err
		}
	}
	if err := p.validate(); err != nil {
		return err
	}
	if p.Spec.Default != nil {
		if _, err := p.Check(p.Spec.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

// disjoint says whether two parameters may have one name: a trial never has both, since they are
// there for different values of one parent.
func disjoint(a, b Spec) bool {
	if a.Parent == "" || a.Parent != b.Parent {
		return false
	}
	return !slices.ContainsFunc(a.ParentValues, func(v any) bool {
		return slices.ContainsFunc(b.ParentValues, func(w any) bool { return equalNumbers(v, w) })
	})
}

// validateParent says what is wrong with the condition of a parameter that follows these.
func (s Space) validateParent(p Spec) error {
	found := false
	for _, q := range s {
		if q.Name != p.Parent {
			continue
		}
		found = true
		for _, v := range p.ParentValues {
			if _, err := q.Check(v); err != nil && q.Kind != KindDerived {
				return fmt.Errorf("When(%q): %w", p.Parent, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("When(%q): there is no such parameter before it", p.Parent)
	}
	if p.Kind == KindGrid {
		return errors.New("an axis of the grid cannot be conditional")
	}
	return nil
}

// validate says what is wrong with a parameter by itself.
func (s Spec) validate() error {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch s.Kind {
	case KindReal, KindInt:
		if !finite(s.Low) || !finite(s.High) || s.Low > s.High {
			return fmt.Errorf("range [%v, %v]: want two finite numbers, the first not above the second", s.Low, s.High)
		}
		if s.Log && s.Low <= 0 {
			return fmt.Errorf("range [%v, %v]: Log needs bounds above 0", s.Low, s.High)
		}
		if !finite(s.High - s.Low) {
			return fmt.Errorf("range [%v, %v] is wider than a float64 can hold", s.Low, s.High)
		}
		if s.Kind == KindInt && (math.Abs(s.Low) > 1<<53 || math.Abs(s.High) > 1<<53) {
			return fmt.Errorf("range [%v, %v]: want bounds within ±2^53", s.Low, s.High)
		}
		if s.Step > 0 && (s.High-s.Low)/s.Step >= 1<<53 {
			return fmt.Errorf("range [%v, %v] has more than 2^53 steps of %v", s.Low, s.High, s.Step)
		}
	case KindNormal, KindLogNormal:
		if !finite(s.Mean) || !finite(s.Deviation) || s.Deviation <= 0 {
			return fmt.Errorf("mean %v, deviation %v: want finite numbers, the second above 0", s.Mean, s.Deviation)
		}
		// Quantiles reach a little over 8 deviations.
		if s.Kind == KindLogNormal && math.Abs(s.Mean)+9*s.Deviation > 700 {
			return fmt.Errorf("mean %v, deviation %v of the logarithm: the values would leave the range of a float64", s.Mean, s.Deviation)
		}
	case KindBool:
	case KindChoice, KindGrid:
		if len(s.Values) == 0 {
			return errors.New("got no values")
		}
		for i, v := range s.Values {
			if slices.ContainsFunc(s.Values[:i], func(w any) bool { return equalNumbers(v, w) }) {
				return fmt.Errorf("value %s is given twice", formatValue(v))
			}
		}
	case KindDerived:
		if s.Derive == nil {
			return errors.New("got no function")
		}
	default:
		return fmt.Errorf("kind %q is unknown", s.Kind)
	}
	return nil
}

// Param returns the first parameter of this name.
func (s Space) Param(name string) (Param, bool) {
	i := slices.IndexFunc(s, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return s[i], true
}

// Fill makes full parameters in the order of the space. A parameter that is active,
// given those before it, takes its value from fixed, or is computed if it is derived,
// or takes the value that propose returns, which must lie within its bounds, both
// included. A value in fixed of an unknown or inactive parameter is an error that
// names it.
func (s Space) Fill(fixed Params, propose func(p Param, before Params) (any, error)) (Params, error) {
	list := make([]pair, 0, len(s))
	used := 0
	for _, p := range s {
		before := Params{list[:len(list):len(list)]}
		if !p.Active(before) {
			continue
		}
		var value any
		var err error
		if v, ok := fixed.Get(p.Name); ok && p.Kind != KindDerived {
			value = v
			used++
		} else if p.Kind == KindDerived {
			// It is computed anew, though a point may carry it along.
			used += b2i(ok)
			value = p.Derive(before)
		} else if value, err = propose(p, before); err != nil {
			return Params{}, err
		}
		if value, err = p.Check(value); err != nil {
			return Params{}, err
		}
		list = append(list, pair{p.Name, value})
	}
	full := Params{list}
	if used < fixed.Len() {
		for name := range fixed.All() {
			if _, ok := s.Param(name); !ok {
				return Params{}, fmt.Errorf("tune: there is no parameter %q in the space: there are %s", name, orNone(s.names()))
			}
			if !full.Has(name) {
				return Params{}, fmt.Errorf("tune: parameter %q has a value, but its condition does not hold with %v", name, full)
			}
		}
	}
	return full, nil
}

// names are the names of all parameters, each once.
func (s Space) names() []string {
	var names []string
	for _, p := range s {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Sample draws all parameters at random except those in fixed. The number of random
// numbers drawn does not depend on their values.
func (s Space) Sample(rng *rand.Rand, fixed Params) (Params, error) {
	drawn := make(map[string]float64, len(s))
	for _, p := range s {
		drawn[p.Name] = rng.Float64()
	}
	return s.Fill(fixed, func(p Param, _ Params) (any, error) { return p.FromUnit(drawn[p.Name]), nil })
}

// Defaults are the parameters with their default values, except those in fixed.
func (s Space) Defaults(fixed Params) (Params, error) {
	return s.Fill(fixed, func(p Param, _ Params) (any, error) {
		if p.Kind == KindGrid {
			return p.Values[0], nil
		}
		return p.middle(), nil
	})
}

// Contains checks that these are full parameters of the space: every active
// parameter with one of its values, and no other.
func (s Space) Contains(p Params) error {
	full, err := s.Fill(p, func(q Param, _ Params) (any, error) {
		return nil, fmt.Errorf("tune: parameter %q is missing: there are %v", q.Name, p)
	})
	if err != nil {
		return err
	}
	if !full.Equal(p) {
		return fmt.Errorf("tune: parameters %v: want them in the order and types of the space: %v", p, full)
	}
	return nil
}
