package suggest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune"
)

// External asks a program for proposals over its standard input and output: one line with a JSON
// object for each request, and one for each answer. The program is started at the first request,
// and again if it has exited.
//
// A request:
//
//	{"id": 7, "number": 12, "seed": 123456789, "metric": "loss", "mode": "min", "fixed": {"batch": 32},
//	 "space": [{"name": "lr", "kind": "real", "low": 0.0001, "high": 0.1, "log": true}, ...],
//	 "trials": [{"number": 3, "state": "completed", "params": {...}, "value": 0.5, "step": 10}, ...]}
//
// space is in the first request to a program only. trials are those that are new or have changed
// since the previous request; the first request has all of them. seed is for the program's random
// numbers: proposals can be repeated if it uses no other. value is absent if the trial has none.
// step is that of its newest report, and 0 before the first.
//
// An answer has the id of its request, and one of: "params", an object with at least the active
// parameters that are not fixed; "wait": true, no proposal before another result; "exhausted":
// true, no more proposals; "error", a text, which ends the study. Answers are in the study's log,
// so a search is resumed and replayed without the program.
type External struct {
	// Command is the program and its arguments.
	Command []string
	// Deadline for an answer. Zero is 30 seconds. A program that misses it is killed, and the
	// study ends.
	Deadline time.Duration
	// Stderr gets the program's standard error. Nil keeps only its end, for error messages.
	Stderr io.Writer

	process *program
	// sent is what the program knows of each trial.
	sent map[int]sentState
	id   int
}

// A sentState is what the program was last told of a trial. Only trials that have changed since are
// sent again.
type sentState struct {
	state   tune.State
	reports int
	changes int
}

// maxAnswer bounds a line of the program's output, in bytes.
const maxAnswer = 16 << 20

// A request is a line that the program gets: what it is to propose, and what is new of the trials.
// Space is in the first one alone.
type request struct {
	ID     int             `json:"id"`
	Number int             `json:"number"`
	Seed   uint64          `json:"seed"`
	Metric string          `json:"metric"`
	Mode   string          `json:"mode"`
	Fixed  tune.Params     `json:"fixed"`
	Space  []externalParam `json:"space,omitempty"`
	Trials []externalTrial `json:"trials"`
}

// An externalParam is a parameter of the space.
type externalParam struct {
	Name         string    `json:"name"`
	Kind         tune.Kind `json:"kind"`
	Low          *float64  `json:"low,omitempty"`
	High         *float64  `json:"high,omitempty"`
	Log          bool      `json:"log,omitempty"`
	Step         float64   `json:"step,omitempty"`
	Mean         *float64  `json:"mean,omitempty"`
	Deviation    float64   `json:"deviation,omitempty"`
	Values       []any     `json:"values,omitempty"`
	Parent       string    `json:"parent,omitempty"`
	ParentValues []any     `json:"parent_values,omitempty"`
}

// An externalTrial is a trial that is new or has changed. Value is nil while it has none.
type externalTrial struct {
	Number int         `json:"number"`
	State  tune.State  `json:"state"`
	Params tune.Params `json:"params"`
	Value  *float64    `json:"value,omitempty"`
	Step   int         `json:"step"`
}

// An answer is a line that the program writes: parameters, or why there are none.
type answer struct {
	ID        int                        `json:"id"`
	Params    map[string]json.RawMessage `json:"params"`
	Wait      bool                       `json:"wait"`
	Exhausted bool                       `json:"exhausted"`
	Error     string                     `json:"error"`
}

// Validate says what is wrong with the fields.
func (e *External) Validate() error {
	if len(e.Command) == 0 {
		return errors.New("suggest: External: Command is empty: want a program")
	}
	return nil
}

// Recorded implements tune.Recorded.
func (e *External) Recorded() bool { return true }

// Close closes the program's standard input, and kills the program if it still runs after five
// seconds.
func (e *External) Close() error {
	if e.process != nil {
		e.process.stop(false)
		e.process = nil
	}
	return nil
}

// Suggest implements tune.Suggester.
func (e *External) Suggest(v tune.View, number int, rng *rand.Rand) (tune.Params, error) {
	if e.process == nil {
		p, err := e.start()
		if err != nil {
			return tune.Params{}, err
		}
		e.process, e.sent = p, nil
	}
	a, err := e.ask(e.request(v, number, rng.Uint64()))
	if err != nil {
		e.process.stop(true)
		text := e.process.stderr.text()
		e.process = nil
		return tune.Params{}, fmt.Errorf("suggest: External: %s: trial %d: %w%s", e.Command[0], number, err, text)
	}
	switch {
	case a.Error != "":
		return tune.Params{}, fmt.Errorf("suggest: External: %s: trial %d: the program answers: %s", e.Command[0], number, a.Error)
	case a.Wait:
		return tune.Params{}, tune.ErrWait
	case a.Exhausted:
		return tune.Params{}, tune.ErrExhausted
	}
	return e.params(v, number, a)
}

// params checks an answer against the space.
func (e *External) params(v tune.View, number int, a answer) (tune.Params, error) {
	values := make(map[string]any, len(a.Params))
	for name, raw := range a.Params {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var x any
		if err := d.Decode(&x); err != nil {
			return tune.Params{}, fmt.Errorf("suggest: External: %s: trial %d: parameter %q: %w", e.Command[0], number, name, err)
		}
		if n, ok := x.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				x = i
			} else if f, err := n.Float64(); err == nil {
				x = f
			}
		}
		if _, ok := v.Space().Param(name); !ok {
			return tune.Params{}, fmt.Errorf("suggest: External: %s: trial %d: parameter %q is not in the space", e.Command[0], number, name)
		}
		values[name] = x
	}
	p, err := v.Space().Fill(v.Fixed(number), func(p tune.Param, _ tune.Params) (any, error) {
		x, ok := values[p.Name]
		if !ok {
			return nil, fmt.Errorf("parameter %q is missing in the answer", p.Name)
		}
		return x, nil
	})
	if err != nil {
		return tune.Params{}, fmt.Errorf("suggest: External: %s: trial %d: %w", e.Command[0], number, err)
	}
	return p, nil
}

// ask sends one request and waits for its answer.
func (e *External) ask(r request) (answer, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	deadline := e.Deadline
	if deadline <= 0 {
		deadline = 30 * time.Second
	}
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	p := e.process
	written := make(chan error, 1)
	p.done.Go(func() {
		_, err := p.stdin.Write(append(b, '\n'))
		written <- err
	})
	for {
		select {
		case err := <-written:
			if err != nil {
				return answer{}, fmt.Errorf("write request: %w", err)
			}
			written = nil
		case line, ok := <-p.lines:
			if !ok {
				return answer{}, fmt.Errorf("it ended without an answer: %w", errors.Join(io.ErrUnexpectedEOF, p.err))
			}
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				return answer{}, fmt.Errorf("answer %.100q: want a JSON object: %w", line, err)
			}
			if a.ID != r.ID {
				return answer{}, fmt.Errorf("answer has id %d, want %d", a.ID, r.ID)
			}
			if a.Params == nil && !a.Wait && !a.Exhausted && a.Error == "" {
				return answer{}, fmt.Errorf("answer %.100q has none of params, wait, exhausted and error", line)
			}
			return a, nil
		case <-timer.C:
			return answer{}, fmt.Errorf("no answer within %v", deadline)
		}
	}
}

func (e *External) request(v tune.View, number int, seed uint64) request {
	e.id++
	r := request{ID: e.id, Number: number, Seed: seed, Metric: v.Metric(), Mode: v.Mode().String(), Fixed: v.Fixed(number), Trials: []externalTrial{}}
	if e.sent == nil {
		e.sent = make(map[int]sentState)
		for _, p := range v.Space() {
			r.Space = append(r.Space, describe(p.Spec))
		}
	}
	for t := range v.Trials() {
		now := sentState{t.State, len(t.Reports), len(t.Changes)}
		if before, ok := e.sent[t.Number]; ok && before == now {
			continue
		}
		e.sent[t.Number] = now
		x := externalTrial{Number: t.Number, State: t.State, Params: t.Params}
		x.Step, _ = t.LastStep()
		if y := v.Result(t); !math.IsNaN(y) && !math.IsInf(y, 0) {
			x.Value = &y
		}
		r.Trials = append(r.Trials, x)
	}
	return r
}

func describe(s tune.Spec) externalParam {
	p := externalParam{Name: s.Name, Kind: s.Kind, Log: s.Log, Step: s.Step, Deviation: s.Deviation, Values: s.Values, Parent: s.Parent, ParentValues: s.ParentValues}
	switch s.Kind {
	case tune.KindReal, tune.KindInt:
		p.Low, p.High = &s.Low, &s.High
	case tune.KindNormal, tune.KindLogNormal:
		p.Mean = &s.Mean
	}
	return p
}
