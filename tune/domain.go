package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"
)

// Count returns how many values the parameter takes, or 0 if they are not finite in number.
func (s Spec) Count() int {
	switch s.Kind {
	case KindBool, KindChoice, KindGrid:
		return len(s.Values)
	case KindReal, KindInt:
		if s.Step > 0 {
			return int(math.Floor((s.High-s.Low)/s.Step*(1+1e-12))) + 1
		}
		if s.Low == s.High {
			return 1
		}
	}
	return 0
}

// Sample draws a value from the parameter's own distribution.
func (s Spec) Sample(rng *rand.Rand) any { return s.FromUnit(rng.Float64()) }

// FromUnit is the value at u of the distribution function, u in [0, 1): a
// uniform u gives the parameter's own distribution. Choices and grid axes are
// divided evenly, in their order. A u outside [0, 1) is moved to its end.
func (s Spec) FromUnit(u float64) any {
	u = min(max(u, 0), 1-1.0/(1<<53))
	if u != u {
		u = 0.5
	}
	switch s.Kind {
	case KindBool, KindChoice, KindGrid:
		if len(s.Values) == 0 {
			return nil
		}
		return s.Values[min(int(u*float64(len(s.Values))), len(s.Values)-1)]
	case KindNormal, KindLogNormal:
		// Quantiles beyond 2^-53 would be infinite.
		x := s.Mean + s.Deviation*distuv.UnitNormal.Quantile(max(u, 1.0/(1<<53)))
		if s.Kind == KindLogNormal {
			x = math.Exp(x)
		}
		return s.Snap(x)
	case KindInt, KindReal:
		if s.Step > 0 && !s.Log {
			n := s.Count()
			return s.at(min(int(u*float64(n)), n-1))
		}
		low, high := s.Low, s.High
		// Each value of a stepped parameter has the cell around it.
		if s.Step > 0 {
			low, high = low-s.Step/2, s.Low+s.Step*(float64(s.Count())-0.5)
			if low <= 0 {
				low = s.Low / 2
			}
		}
		if s.Log {
			return s.Snap(math.Exp(math.Log(low) + u*(math.Log(high)-math.Log(low))))
		}
		return s.Snap(low + u*(high-low))
	default:
		return nil
	}
}

// ToUnit is the inverse of FromUnit: a u in [0, 1] that gives the value, in the
// middle of those that do. A value the parameter does not have gives 0.5.
func (s Spec) ToUnit(value any) float64 {
	switch s.Kind {
	case KindBool, KindChoice, KindGrid:
		i := slices.IndexFunc(s.Values, func(v any) bool { return equalNumbers(v, value) })
		if i < 0 {
			return 0.5
		}
		return (float64(i) + 0.5) / float64(len(s.Values))
	}
	x, ok := number(value)
	if !ok {
		return 0.5
	}
	switch s.Kind {
	case KindNormal, KindLogNormal:
		if s.Kind == KindLogNormal {
			x = math.Log(x)
		}
		return distuv.UnitNormal.CDF((x - s.Mean) / s.Deviation)
	case KindInt, KindReal:
		if s.Low == s.High {
			return 0.5
		}
		low, high := s.Low, s.High
		if s.Step > 0 {
			low, high = low-s.Step/2, s.Low+s.Step*(float64(s.Count())-0.5)
			if low <= 0 && s.Log {
				low = s.Low / 2
			}
		}
		if s.Log {
			low, high, x = math.Log(low), math.Log(high), math.Log(x)
		}
		return min(max((x-low)/(high-low), 0), 1)
	default:
		return 0.5
	}
}

// Snap is the nearest value the parameter has: within its bounds, on its steps.
func (s Spec) Snap(x float64) any {
	switch s.Kind {
	case KindInt, KindReal:
		if s.Step > 0 {
			n := s.Count()
			return s.at(min(max(int(math.Round(min(max((x-s.Low)/s.Step, -1), float64(n)))), 0), n-1))
		}
		return min(max(x, s.Low), s.High)
	case KindNormal, KindLogNormal:
		if s.Step > 0 {
			return clean(math.Round(x/s.Step) * s.Step)
		}
		return x
	default:
		return nil
	}
}

// at is value i of a stepped range.
func (s Spec) at(i int) any {
	x := s.Low + float64(i)*s.Step
	if s.Kind == KindInt {
		return int64(math.Round(x))
	}
	return min(clean(x), s.High)
}

// clean takes off the noise of adding steps: 0.1+2·0.1 is 0.3 then.
func clean(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// Check returns the value in the parameter's type, or an error if it is not one
// of its values. An integer stands for a float, and a whole float for an integer.
// A real may lie anywhere within its bounds, also off its steps.
func (s Spec) Check(value any) (any, error) {
	v, err := normal(value)
	if err != nil {
		return nil, fmt.Errorf("tune: parameter %q: %w", s.Name, err)
	}
	switch s.Kind {
	case KindDerived:
		return v, nil
	case KindBool, KindChoice, KindGrid:
		i := slices.IndexFunc(s.Values, func(w any) bool { return equalNumbers(v, w) })
		if i < 0 {
			return nil, fmt.Errorf("tune: parameter %q: value %s is not among %s", s.Name, formatValue(v), formatValues(s.Values))
		}
		return s.Values[i], nil
	}
	x, ok := number(v)
	if !ok {
		return nil, fmt.Errorf("tune: parameter %q: value %s is of type %s, want a number", s.Name, formatValue(v), typeName(v))
	}
	if s.Kind == KindInt && x != math.Trunc(x) {
		return nil, fmt.Errorf("tune: parameter %q: value %v is not an integer", s.Name, x)
	}
	switch s.Kind {
	case KindReal, KindInt:
		if x < s.Low || x > s.High {
			return nil, fmt.Errorf("tune: parameter %q: value %v is not in [%v, %v]", s.Name, x, s.Low, s.High)
		}
	case KindLogNormal:
		if x < 0 {
			return nil, fmt.Errorf("tune: parameter %q: value %v is below 0", s.Name, x)
		}
	}
	if s.Kind == KindInt {
		return int64(x), nil
	}
	return x, nil
}

// formatValues writes values for a message.
func formatValues(values []any) string {
	b := []byte{}
	for i, v := range values {
		if i > 0 {
			b = append(b, ", "...)
		}
		if i == 20 {
			return string(fmt.Appendf(b, "... (%d)", len(values)))
		}
		b = append(b, formatValue(v)...)
	}
	return string(b)
}

// middle is the default of a parameter that has none of its own.
func (s Spec) middle() any {
	switch {
	case s.Default != nil:
		return s.Default
	case s.Kind == KindBool || s.Kind == KindChoice:
		return s.Values[0]
	case s.Kind == KindNormal:
		return s.Snap(s.Mean)
	case s.Kind == KindLogNormal:
		return s.Snap(math.Exp(s.Mean))
	case s.Log:
		return s.Snap(math.Sqrt(s.Low) * math.Sqrt(s.High))
	default:
		return s.Snap(s.Low + (s.High-s.Low)/2)
	}
}
