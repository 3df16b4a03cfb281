package ruletext

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// maxText bounds the text of a rule, in bytes. Of one with a longer text only the type is kept.
const maxText = 64 << 10

// maxDepth bounds how deep rules are within each other: one may hold itself.
const maxDepth = 20

// Kinds are the interfaces that rules implement. Settings of other interface types are no settings.
type Kinds []reflect.Type

// Text is the text of a rule. Of one that holds itself, or has too many settings, it has the type
// alone, with null in the place of the settings.
func (k Kinds) Text(rule any) json.RawMessage {
	tree, err := k.tree(reflect.ValueOf(rule), 0)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(map[string]any{reflect.TypeOf(rule).String(): tree}); err == nil && len(text) <= maxText {
			return text
		}
	}
	// A name alone cannot fail.
	text, _ := json.Marshal(map[string]any{reflect.TypeOf(rule).String(): nil})
	return text
}

// tree is a setting in the types that JSON has. Functions and interfaces other than k are no
// settings: they are nil.
func (k Kinds) tree(v reflect.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("tune: rules nested without end")
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		// JSON has no such numbers: they are texts.
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x), nil
		}
		return v.Float(), nil
	case reflect.String:
		return v.String(), nil
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		// A pointer is written as what it points to.
		return k.tree(v.Elem(), depth+1)
	case reflect.Interface:
		if v.IsNil() || !slices.Contains(k, v.Type()) {
			return nil, nil
		}
		tree, err := k.tree(v.Elem(), depth+1)
		return map[string]any{v.Elem().Type().String(): tree}, err
	case reflect.Struct:
		return k.fields(v, depth)
	case reflect.Slice, reflect.Array:
		all := make([]any, v.Len())
		for i := range all {
			var err error
			if all[i], err = k.tree(v.Index(i), depth+1); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, nil
}

// fields are the exported fields of a struct that are settings and not zero.
func (k Kinds) fields(v reflect.Value, depth int) (map[string]any, error) {
	all := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() {
			continue
		}
		tree, err := k.tree(v.Field(i), depth+1)
		if err != nil {
			return nil, err
		}
		if tree != nil {
			all[f.Name] = tree
		}
	}
	return all, nil
}
