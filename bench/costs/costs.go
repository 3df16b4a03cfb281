// Package costs holds what the stages of the store cost on a machine: bench/kv measures them, bench/scale predicts rounds from them.
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

// A Line is the time on one core of something that grows with its size: Message for each message and Byte for each byte, in
// seconds.
type Line struct {
	Message float64 `json:"message"`
	Byte    float64 `json:"byte"`
}

// Of is the time for so many bytes in so many messages.
func (l Line) Of(messages, bytes float64) float64 { return l.Message*messages + l.Byte*bytes }

// A Transport is the time on a core that moving takes: what is said of push is a contribution with its acknowledgement, of pull
// the way of a value to the worker in the answer to a push.
type Transport struct {
	PushWorker Line `json:"push_worker"`
	PushServer Line `json:"push_server"`
	PullWorker Line `json:"pull_worker"`
	PullServer Line `json:"pull_server"`
}

// Costs are the stages. Bytes are those of float32 values, also where they are encoded.
type Costs struct {
	Machine    string               `json:"machine"`
	Cores      int                  `json:"cores"`
	Commit     string               `json:"commit"`
	Command    string               `json:"command"`
	Transports map[string]Transport `json:"transports"` // by name: tcp, unix, auto
	Sum        float64              `json:"sum"`        // a byte of a contribution added to others
	Update     map[string]float64   `json:"update"`     // a byte of a value changed, by rule
	Encode     map[string]float64   `json:"encode"`     // a byte compressed, by kind
	Decode     map[string]float64   `json:"decode"`     // a byte added to a sum from its code
}

// Validate names the first cost that cannot be.
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
	err := check("sum", c.Sum)
	for _, name := range slices.Sorted(maps.Keys(c.Transports)) {
		t := c.Transports[name]
		for i, l := range []Line{t.PushWorker, t.PushServer, t.PullWorker, t.PullServer} {
			what := fmt.Sprintf("line %d of transport %s", i, name)
			err = errors.Join(err, check(what, l.Message), check(what, l.Byte))
		}
	}
	for kind, m := range map[string]map[string]float64{"update": c.Update, "encode": c.Encode, "decode": c.Decode} {
		for name, x := range m {
			err = errors.Join(err, check(kind+" "+name, x))
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

// Fit is the line through the costs of two sizes; where noise would make a part negative it is 0.
func Fit(small, smallCost, large, largeCost float64) Line {
	b := max(0, (largeCost-smallCost)/(large-small))
	return Line{Message: Round(max(0, smallCost-b*small)), Byte: Round(b)}
}
