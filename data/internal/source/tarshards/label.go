package tarshards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// maxLabels bounds how many numbers one label has.
const maxLabels = 1 << 16

// parseText reads the number of a class, as a .cls member has it, or several numbers with spaces or
// commas between them.
func parseText(text []byte) ([]float32, error) {
	words := bytes.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\r' || r == '\t' })
	if len(words) == 0 {
		return nil, errors.New("is empty, want a number")
	}
	if len(words) > maxLabels {
		return nil, fmt.Errorf("has %d numbers, want at most %d", len(words), maxLabels)
	}
	labels := make([]float32, len(words))
	for k, word := range words {
		v, err := strconv.ParseFloat(string(word), 64)
		if err != nil {
			return nil, fmt.Errorf("got %.40q, want a number", word)
		}
		if err := checkLabel(v); err != nil {
			return nil, err
		}
		labels[k] = float32(v)
	}
	return labels, nil
}

// checkLabel refuses what is no label, and whole numbers that would become others as float32.
func checkLabel(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("got %v, want a number", v)
	}
	if v == math.Trunc(v) && math.Abs(v) > 1<<24 {
		return fmt.Errorf("got %v, want whole numbers to 16777216", v)
	}
	return nil
}

// fields are where JSON has its label if nothing else is said.
var fields = []string{"label", "cls", "class"}

// parseJSON reads the label of a JSON object: a number, or a list of numbers. maybe allows JSON
// that has none. JSON that is only a number or a list is the label itself.
func parseJSON(text []byte, field string, maybe bool) ([]float32, error) {
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] != '{' {
		labels, err := numbers(text)
		if err != nil && maybe && json.Valid(text) {
			return nil, nil
		}
		return labels, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("as JSON: %w", err)
	}
	names := fields
	if field != "" {
		names, maybe = []string{field}, false
	}
	for _, name := range names {
		value, ok := object[name]
		if !ok {
			continue
		}
		labels, err := numbers(value)
		if err != nil && maybe {
			// A class has its name here beside others.
			continue
		}
		return labels, err
	}
	if maybe {
		return nil, nil
	}
	return nil, fmt.Errorf("the JSON has no field %q", names)
}

func numbers(value json.RawMessage) ([]float32, error) {
	var list []float64
	if err := json.Unmarshal(value, &list); err != nil || list == nil {
		var one *float64
		if err := json.Unmarshal(value, &one); err != nil || one == nil {
			return nil, fmt.Errorf("got %.40q, want a number or a list of numbers", value)
		}
		list = []float64{*one}
	}
	if len(list) == 0 || len(list) > maxLabels {
		return nil, fmt.Errorf("got a list of %d numbers, want 1 to %d", len(list), maxLabels)
	}
	labels := make([]float32, len(list))
	for k, v := range list {
		if err := checkLabel(v); err != nil {
			return nil, err
		}
		labels[k] = float32(v)
	}
	return labels, nil
}
