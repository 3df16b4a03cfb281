package shard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// A Table holds the first values of a key's rows and the limit of an open vocabulary's rows. It is
// sent as JSON.
type Table struct {
	Initializer Initializer `json:"initializer,omitzero"`
	// MaxRows limits the rows of an open vocabulary over all of its shards; each has an equal
	// share, rounded up. Zero: no limit.
	MaxRows uint64 `json:"max_rows,omitempty"`
}

// An Initializer gives rows their first values. They depend on the seed, the key's name and the
// row's number or ID alone, not on the order of requests or the number of servers.
type Initializer struct {
	// Name is "zeros" (or empty), "uniform" or "normal".
	Name string `json:"name,omitempty"`
	// Low and High are the bounds of "uniform".
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Mean and Deviation (the standard deviation) are those of "normal".
	Mean      float64 `json:"mean,omitempty"`
	Deviation float64 `json:"deviation,omitempty"`
	Seed      uint64  `json:"seed,omitempty"`
}

// Validate returns an error that names the field, the value and the rule.
func (i Initializer) Validate() error {
	finite := func(name string, v float64) error {
		if !(math.Abs(v) <= math.MaxFloat32) {
			return fmt.Errorf("initializer %s: %s: got %v, want a finite float32", i.Name, name, v)
		}
		return nil
	}
	unused := func(name string, v float64) error {
		if v != 0 {
			return fmt.Errorf("initializer %q: %s: got %v, want 0: it is not used", i.Name, name, v)
		}
		return nil
	}
	first := func(list ...error) error {
		for _, err := range list {
			if err != nil {
				return err
			}
		}
		return nil
	}
	switch i.Name {
	case "", "zeros":
		return first(unused("Low", i.Low), unused("High", i.High), unused("Mean", i.Mean), unused("Deviation", i.Deviation))
	case "uniform":
		if err := first(finite("Low", i.Low), finite("High", i.High), unused("Mean", i.Mean), unused("Deviation", i.Deviation)); err != nil {
			return err
		}
		if i.Low > i.High {
			return fmt.Errorf("initializer uniform: Low: got %v, want at most High, %v", i.Low, i.High)
		}
		return nil
	case "normal":
		if err := first(finite("Mean", i.Mean), finite("Deviation", i.Deviation), unused("Low", i.Low), unused("High", i.High)); err != nil {
			return err
		}
		if i.Deviation < 0 {
			return fmt.Errorf("initializer normal: Deviation: got %v, want at least 0", i.Deviation)
		}
		return nil
	}
	return fmt.Errorf("initializer: Name: got %q, want zeros, uniform or normal", i.Name)
}

// zeros reports whether all first values are zero.
func (i *Initializer) zeros() bool { return i.Name == "" || i.Name == "zeros" }

// fill sets row to the first values of a row of a key; key is the hash of its name. It draws from a
// stream of the row alone. A stream of the whole table would be faster, and the values would depend
// on which server has which rows and on the order in which they are made.
func (i *Initializer) fill(key uint64, id int64, row []float32) {
	if i.zeros() {
		clear(row)
		return
	}
	// state is that of a SplitMix64 stream of this row.
	state := Mix(Mix(Mix(i.Seed)^key) ^ uint64(id))
	next := func() uint64 {
		state += 0x9e3779b97f4a7c15
		return Mix(state)
	}
	if i.Name == "uniform" {
		for j := range row {
			row[j] = float32(i.Low + float64((i.High-i.Low)*unit(next())))
		}
		return
	}
	// Box and Muller 1958.
	for j := 0; j < len(row); j += 2 {
		radius := math.Sqrt(-2 * math.Log(1-unit(next())))
		sin, cos := math.Sincos(2 * math.Pi * unit(next()))
		row[j] = float32(i.Mean + float64(i.Deviation*float64(radius*cos)))
		if j+1 < len(row) {
			row[j+1] = float32(i.Mean + float64(i.Deviation*float64(radius*sin)))
		}
	}
}

// unit maps random bits to a number in [0, 1).
func unit(x uint64) float64 { return float64(x>>11) * 0x1p-53 }

// hashOf is the FNV-1a hash of a key's name. First values of stored models depend on it: it must
// not change.
func hashOf(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return h
}

// Encode checks the table and returns its JSON; empty for the zero Table.
func (t Table) Encode() (string, error) {
	if err := t.Initializer.Validate(); err != nil {
		return "", err
	}
	if t == (Table{}) {
		return "", nil
	}
	data, err := json.Marshal(t)
	return string(data), err
}

// maxTable bounds the JSON of a Table that a peer sends; every valid one is shorter.
const maxTable = 4096

// DecodeTable decodes the JSON of Encode. Anything else is an error.
func DecodeTable(text string) (Table, error) {
	var t Table
	if text == "" {
		return t, nil
	}
	if len(text) > maxTable {
		return t, fmt.Errorf("table: got %d bytes, want at most %d", len(text), maxTable)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return Table{}, fmt.Errorf("table: at byte %d of %d: %w", d.InputOffset(), len(text), err)
	}
	if rest := bytes.TrimSpace([]byte(text[d.InputOffset():])); len(rest) > 0 {
		return Table{}, fmt.Errorf("table: more follows at byte %d of %d", d.InputOffset(), len(text))
	}
	return t, t.Initializer.Validate()
}
