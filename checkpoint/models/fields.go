package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/paragon-train/paragon/internal/observe/shown"
)

// A reader reads fields of a JSON object. Its first error stays.
type reader struct {
	all map[string]json.RawMessage
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// has reports whether a field is there, and not null.
func (r *reader) has(field string) bool {
	raw, ok := r.all[field]
	return ok && string(raw) != "null"
}

// read decodes a field, if it is there.
func read[T any](r *reader, field, want string, otherwise T) T {
	if !r.has(field) {
		return otherwise
	}
	value := otherwise
	if err := json.Unmarshal(r.all[field], &value); err != nil {
		r.fail(fmt.Errorf("%s: got %s, want %s", field, shown.Cut(string(r.all[field])), want))
		return otherwise
	}
	return value
}

func (r *reader) text(field, otherwise string) string { return read(r, field, "a string", otherwise) }

func (r *reader) flag(field string, otherwise bool) bool {
	return read(r, field, "true or false", otherwise)
}

// object is the reader of an object within; one without fields if it is not there.
func (r *reader) object(field string) *reader {
	return &reader{all: read(r, field, "an object", map[string]json.RawMessage{})}
}

// size reads a count of at least 1. otherwise 0: it has to be there.
func (r *reader) size(field string, otherwise int) int {
	const most = 1 << 30
	n := read(r, field, "an integer", otherwise)
	if n < 1 || n > most {
		r.fail(fmt.Errorf("%s: got %d, want 1 to %d", field, n, most))
		return 1
	}
	return n
}

// positive reads a number above 0. otherwise 0: it has to be there.
func (r *reader) positive(field string, otherwise float64) float64 {
	x := read(r, field, "a number", otherwise)
	if !(x > 0) {
		r.fail(fmt.Errorf("%s: got %g, want more than 0", field, x))
		return 1
	}
	return x
}

// rate reads a rate of dropout.
func (r *reader) rate(field string, otherwise float64) float64 {
	x := read(r, field, "a number", otherwise)
	if !(x >= 0 && x < 1) {
		r.fail(fmt.Errorf("%s: got %g, want 0 or more, and less than 1", field, x))
		return 0
	}
	return x
}

// want refuses a flag of another value.
func (r *reader) want(field string, want, otherwise bool) {
	if got := r.flag(field, otherwise); got != want {
		r.fail(fmt.Errorf("%s: got %v, want %v: package nn's model does not do it", field, got, want))
	}
}

// divides refuses a number that does not divide another.
func (r *reader) divides(field string, n int, of string, all int) {
	if all%n != 0 {
		r.fail(fmt.Errorf("%s: got %d, want a number that divides the %d of %s", field, n, all, of))
	}
}

// sized compares the shape of a parameter with fields of config.json.
func sized(shapes map[string][]int, parameter, fields string, want ...int) error {
	got, ok := shapes[parameter]
	if !ok {
		return fmt.Errorf("the model lacks %s", parameter)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s has shape %v, and config.json says %v (%s)", parameter, got, want, fields)
	}
	return nil
}

// layered compares the number of blocks, each of which has a parameter of this name.
func layered(shapes map[string][]int, parameter, field string, want int) error {
	n := 0
	for shapes[fmt.Sprintf(parameter, n)] != nil {
		n++
	}
	if n != want {
		return fmt.Errorf("the model has %d blocks, and config.json says %d (%s)", n, want, field)
	}
	return nil
}

// marshal writes the fields of a config.json: those that were read, else those given. The numbers
// written are float32, whatever was read.
func marshal(raw map[string]json.RawMessage, fields map[string]any) ([]byte, error) {
	if raw != nil {
		fields = map[string]any{}
		for name, value := range raw {
			fields[name] = value
		}
		delete(fields, "torch_dtype")
	}
	fields = maps.Clone(fields)
	fields["dtype"] = "float32"
	text, err := json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

// ParseParams reads the text of a params.json of Meta's and returns the number of rows of a head.
func ParseParams(text []byte) (head int, err error) {
	r := &reader{}
	if err := json.Unmarshal(text, &r.all); err != nil {
		return 0, err
	}
	width, heads := r.size("dim", 0), r.size("n_heads", 0)
	r.divides("n_heads", heads, "dim", width)
	if r.err == nil && width/heads%2 != 0 {
		r.fail(errors.New("heads of an odd number of rows, want an even one"))
	}
	return width / heads, r.err
}
