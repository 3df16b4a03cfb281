// Package costs holds what the stages of the store cost on a machine: bench/kv measures them,
// bench/scale predicts rounds from them.
package costs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// A Line is the time on one core of something that grows with its size, in seconds: Message for
// each message, or Large for one of LargeBytes and more, which goes another way; and for each byte
// Byte where the memory that it touches is in the last-level cache, Far where it is not.
type Line struct {
	Message float64 `json:"message,omitempty"`
	Large   float64 `json:"large,omitempty"`
	Byte    float64 `json:"byte"`
	Far     float64 `json:"far"`
}

// LargeBytes are those of a large message: from there on memory is lent within a host, and written
// past the buffers between hosts.
const LargeBytes = 64 << 10

// Of is the time for so many bytes in so many messages, of which the share far is not in the cache.
func (l Line) Of(messages, bytes, far float64) float64 {
	each := l.Message
	if bytes >= LargeBytes*messages {
		each = l.Large
	}
	return each*messages + (l.Byte+(l.Far-l.Byte)*far)*bytes
}

// A Transport is the time on a core that a round of pushes and pulls takes: what is said of push is
// a contribution on its way, of pull a value on its way back, where one worker has one server.
// Further is what each contribution to a round after the first takes besides: the sum and what goes
// with it; less than nothing where what there is once in a round is more than that.
type Transport struct {
	PushWorker    Line `json:"push_worker"`
	PushServer    Line `json:"push_server"`
	PullWorker    Line `json:"pull_worker"`
	PullServer    Line `json:"pull_server"`
	FurtherWorker Line `json:"further_worker"`
	FurtherServer Line `json:"further_server"`
}

// Costs are the stages. Bytes are those of float32 values, also where they are encoded.
type Costs struct {
	Machine string `json:"machine"`
	Cores   int    `json:"cores"`

	// LLC is the size of the last-level cache in bytes; 0: not known.
	LLC float64 `json:"llc"`

	Commit  string `json:"commit"`
	Command string `json:"command"`

	// Transports are by name: tcp, unix, auto.
	Transports map[string]Transport `json:"transports"`

	// Copy is what a copied byte costs, and Sum a byte of a contribution that is added to others.
	Copy Line `json:"copy"`
	Sum  Line `json:"sum"`

	// Update is what a changed byte of a value costs, by rule.
	Update map[string]Line `json:"update"`

	// Encode is what a compressed byte costs, and Decode one that is added to a sum from its code,
	// by kind.
	Encode map[string]Line `json:"encode"`
	Decode map[string]Line `json:"decode"`
}

// Far is the share of what passes over a working set again and again that comes from memory: a
// cache that is smaller keeps its part. Both are in bytes.
func Far(workingSet, cache float64) float64 {
	if workingSet <= cache {
		return 0
	}
	return 1 - cache/workingSet
}

// Validate names the costs that cannot be.
func (c *Costs) Validate() error {
	check := func(what string, x float64) error {
		if !(x >= 0) || x > 1 {
			return fmt.Errorf("costs: %s is %v s, want 0 to 1", what, x)
		}
		return nil
	}
	if len(c.Transports) == 0 || c.Cores < 1 {
		return fmt.Errorf("costs: %d transports and %d cores, want at least 1", len(c.Transports), c.Cores)
	}
	var err error
	line := func(what string, l Line) {
		err = errors.Join(err, check(what, l.Message), check(what, l.Large), check(what, l.Byte), check(what, l.Far))
	}
	line("copy", c.Copy)
	line("sum", c.Sum)
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		line("push_worker of transport "+name, t.PushWorker)
		line("push_server of transport "+name, t.PushServer)
		line("pull_worker of transport "+name, t.PullWorker)
		line("pull_server of transport "+name, t.PullServer)
	}
	for _, kind := range []struct {
		name  string
		lines map[string]Line
	}{{"update", c.Update}, {"encode", c.Encode}, {"decode", c.Decode}} {
		for _, name := range slices.Sorted(maps.Keys(kind.lines)) {
			line(kind.name+" "+name, kind.lines[name])
		}
	}
	return err
}

// Read reads a file that Write wrote.
func Read(path string) (*Costs, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	var c Costs
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("costs: read %s: %w", path, err)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("costs: read %s: %w", path, err)
	}
	return &c, nil
}

// Write writes the costs to a file, numbers to three digits.
func (c *Costs) Write(path string) error {
	if err := c.Validate(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return fmt.Errorf("costs: write %s: %w", path, err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}

// Round gives a number three digits.
func Round(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-2)
	return math.Round(x/unit) * unit
}

// A Point is what a message of so many bytes costs.
type Point struct{ Bytes, Cost float64 }

// Fit is the line through what a small message costs and two large ones, all in the cache, and one
// of a set of which the share share is not. It may fall.
func Fit(small, large, larger, far Point, share float64) Line {
	b := (larger.Cost - large.Cost) / (larger.Bytes - large.Bytes)
	fixed := larger.Cost - b*larger.Bytes
	return Line{Message: Round(small.Cost - b*small.Bytes), Large: Round(fixed), Byte: Round(b), Far: Round(b + ((far.Cost-fixed)/far.Bytes-b)/share)}
}

// Rising is the line without the parts that noise made negative, for what cannot give time back;
// memory is never faster than the cache.
func (l Line) Rising() Line {
	l.Message, l.Large, l.Byte = max(0, l.Message), max(0, l.Large), max(0, l.Byte)
	l.Far = max(l.Byte, l.Far)
	return l
}
