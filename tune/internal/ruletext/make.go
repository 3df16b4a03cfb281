package ruletext

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Maker makes rules from their texts, of types that it knows.
type Maker struct {
	kinds Kinds
	// types are those that it knows, by name.
	types map[string]reflect.Type
}

// NewMaker returns one that knows no type yet.
func NewMaker(kinds Kinds) *Maker { return &Maker{kinds: kinds, types: map[string]reflect.Type{}} }

// Know adds the types of rules, and of those within them.
func (m *Maker) Know(rules ...any) {
	for _, rule := range rules {
		if v := reflect.ValueOf(rule); v.IsValid() {
			m.knowIn(v, 0)
		}
	}
}

// knowIn adds the types of the rules in a value: all of it, if depth is 0.
func (m *Maker) knowIn(v reflect.Value, depth int) {
	if depth > maxDepth {
		return
	}
	if v.Kind() != reflect.Interface && (depth == 0 || slices.ContainsFunc(m.kinds, v.Type().Implements)) {
		m.types[v.Type().String()] = v.Type()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			m.knowIn(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				m.knowIn(v.Field(i), depth+1)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			m.knowIn(v.Index(i), depth+1)
		}
	}
}

// Make makes a rule of kind T from its text. It is nil for the text null.
func Make[T any](m *Maker, text json.RawMessage) (made T, err error) {
	err = m.make(reflect.ValueOf(&made).Elem(), text)
	return made, err
}

// make sets v to what Kinds.tree made of it.
func (m *Maker) make(v reflect.Value, text json.RawMessage) error {
	// A nil pointer in a list was written as null, and stays nil.
	if string(text) == "null" {
		return nil
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
		v.SetFloat(x)
		return err
	case reflect.Pointer:
		// A text does not tell a pointer from what it points to: the field's type does.
		v.Set(reflect.New(v.Type().Elem()))
		return m.make(v.Elem(), text)
	case reflect.Interface:
		return m.makeNamed(v, text)
	case reflect.Struct:
		return m.makeFields(v, text)
	case reflect.Slice, reflect.Array:
		return m.makeList(v, text)
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// makeFields sets the fields of a struct that the text names.
func (m *Maker) makeFields(v reflect.Value, text json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, value := range all {
		f := v.FieldByName(name)
		if !f.IsValid() || !f.CanSet() {
			return fmt.Errorf("%s has no field %s", v.Type(), name)
		}
		if err := m.make(f, value); err != nil {
			return fmt.Errorf("%s.%s: %w", v.Type(), name, err)
		}
	}
	return nil
}

// makeList sets a slice or an array.
func (m *Maker) makeList(v reflect.Value, text json.RawMessage) error {
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(all), len(all)))
	} else if v.Len() != len(all) {
		return fmt.Errorf("%s: got %d values", v.Type(), len(all))
	}
	for i, value := range all {
		if err := m.make(v.Index(i), value); err != nil {
			return err
		}
	}
	return nil
}

// makeNamed sets an interface to a rule of the type that the text names.
func (m *Maker) makeNamed(v reflect.Value, text json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, settings := range all {
		t, ok := m.types[name]
		if !ok || len(all) != 1 || string(settings) == "null" {
			return fmt.Errorf("%s cannot be restored from the log", name)
		}
		made := reflect.New(t).Elem()
		if err := m.make(made, settings); err != nil {
			return err
		}
		if !t.Implements(v.Type()) {
			return fmt.Errorf("%s is not a %s", name, v.Type())
		}
		v.Set(made)
	}
	return nil
}
