package show

import (
	"fmt"
	"math"
	"slices"

	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/tune"
)

// hparams are the parameters of a search's space for TensorBoard. A name that stands for several
// conditional parameters becomes one that can have all their values.
func hparams(v tune.View) []metrics.HParam {
	var list []metrics.HParam
	for _, p := range v.Space() {
		h := hparamOf(v, p.Spec)
		i := slices.IndexFunc(list, func(other metrics.HParam) bool { return other.Name == h.Name })
		if i < 0 {
			list = append(list, h)
			continue
		}
		list[i] = union(list[i], h)
	}
	return list
}

// hparamOf is one parameter of the space.
func hparamOf(v tune.View, s tune.Spec) metrics.HParam {
	h := metrics.HParam{Name: s.Name, Kind: metrics.HParamNumber, Low: math.Inf(-1), High: math.Inf(1)}
	switch s.Kind {
	case tune.KindReal, tune.KindInt:
		h.Low, h.High = s.Low, s.High
	case tune.KindBool:
		h.Kind, h.Values = metrics.HParamBool, []any{false, true}
	case tune.KindChoice, tune.KindGrid:
		h.Kind = kindOf(s.Values)
		for _, x := range s.Values {
			h.Values = append(h.Values, hvalue(h.Kind, x))
		}
	case tune.KindDerived:
		// A derived parameter may have any value that its function returns.
		for t := range v.Trials() {
			if x, ok := t.Params.Get(s.Name); ok {
				h.Kind = kindOf([]any{x})
				break
			}
		}
	}
	return h
}

// union has the values of both.
func union(a, b metrics.HParam) metrics.HParam {
	switch {
	case a.Kind != b.Kind:
		// The parameters are compared as texts, of which any may come.
		return metrics.HParam{Name: a.Name, Kind: metrics.HParamString}
	case a.Values != nil && b.Values != nil:
		for _, x := range b.Values {
			if !slices.Contains(a.Values, x) {
				a.Values = append(a.Values, x)
			}
		}
		return a
	}
	for _, h := range []*metrics.HParam{&a, &b} {
		if h.Values == nil {
			continue
		}
		h.Low, h.High = math.Inf(1), math.Inf(-1)
		for _, x := range h.Values {
			if x, ok := x.(float64); ok {
				h.Low, h.High = min(h.Low, x), max(h.High, x)
			}
		}
	}
	return metrics.HParam{Name: a.Name, Kind: a.Kind, Low: min(a.Low, b.Low), High: max(a.High, b.High)}
}

// kindOf is text if the values are of several kinds.
func kindOf(values []any) (kind metrics.HParamKind) {
	for i, x := range values {
		k := metrics.HParamNumber
		switch x.(type) {
		case string:
			k = metrics.HParamString
		case bool:
			k = metrics.HParamBool
		}
		if i > 0 && k != kind {
			return metrics.HParamString
		}
		kind = k
	}
	return kind
}

// hvalue is a value of a parameter of this kind.
func hvalue(kind metrics.HParamKind, x any) any {
	if kind == metrics.HParamString {
		return fmt.Sprint(x)
	}
	if n, ok := x.(int64); ok {
		return float64(n)
	}
	return x
}

// sessionOf are the parameters of a trial: those whose condition holds.
func sessionOf(v tune.View, p tune.Params) []metrics.HParamValue {
	kinds := make(map[string]metrics.HParamKind)
	for _, h := range hparams(v) {
		kinds[h.Name] = h.Kind
	}
	var list []metrics.HParamValue
	for name, x := range p.All() {
		kind, ok := kinds[name]
		if !ok {
			// The search has no space.
			kind = kindOf([]any{x})
		}
		list = append(list, metrics.HParamValue{Name: name, Value: hvalue(kind, x)})
	}
	return list
}
