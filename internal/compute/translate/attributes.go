package translate

import (
	"fmt"
	"reflect"

	"gorgonia.org/gorgonia"
)

// attributes reads the fields of one of gorgonia's ops. The first that is not there is kept.
type attributes struct {
	op      reflect.Value
	missing error
}

func attributesOf(o gorgonia.Op) *attributes {
	return &attributes{op: reflect.Indirect(reflect.ValueOf(o))}
}

func (a *attributes) field(name string, kind reflect.Kind) reflect.Value {
	if f := a.op.FieldByName(name); f.IsValid() && f.Kind() == kind {
		return f
	}
	if a.missing == nil {
		a.missing = fmt.Errorf("%v of this version of gorgonia has no attribute %s of kind %v; v0.9.18 has", a.op.Type(), name, kind)
	}
	return reflect.Zero(reflect.TypeOf(map[reflect.Kind]any{reflect.Int: 0, reflect.Float64: 0.0, reflect.Bool: false, reflect.Uint: uint(0), reflect.Slice: []int(nil)}[kind]))
}

func (a *attributes) int(name string) int       { return int(a.field(name, reflect.Int).Int()) }
func (a *attributes) uint(name string) uint64   { return a.field(name, reflect.Uint).Uint() }
func (a *attributes) float(name string) float64 { return a.field(name, reflect.Float64).Float() }
func (a *attributes) bool(name string) bool     { return a.field(name, reflect.Bool).Bool() }

func (a *attributes) ints(name string) []int {
	f := a.field(name, reflect.Slice)
	out := make([]int, f.Len())
	for i := range out {
		out[i] = int(f.Index(i).Int())
	}
	return out
}
