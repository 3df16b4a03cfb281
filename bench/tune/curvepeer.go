package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/curvetest"
)

// A peerProgram is another library that takes part in the searches on learning curves. It is
// started anew for each search.
//
// It reads one JSON object a line and answers each with one. The clock and the trainings are this
// program's.
//
//	{"op": "start", "rule": "asha", "workers": 8, "seed": 3, "last": 81, "budget": 8100, "space": [...]}  {}
//	{"op": "ask", "now": 12.5}                    {"trial": 4, "params": {...}}, {"trial": 2} to continue a paused one, {"wait": true}, or {"done": true}
//	{"op": "report", "now": 13.5, "trial": 4, "step": 1, "value": 31.2, "last": false}                  {"action": "continue", "stop" or "pause"}
//	{"op": "end", "now": 14, "trial": 2}          {}: a paused trial that was to continue had nothing left to train
//
// space is that of suggest.External. value is null where a training has diverged, which ends the
// trial; with last it has ended by itself. An answer {"error": "..."} ends the search.
type peerProgram struct {
	name    string
	command []string
	rules   []string
}

// A peerParam is an axis of the space. It exists where its parent has one of ParentValues.
type peerParam struct {
	Name         string    `json:"name"`
	Kind         tune.Kind `json:"kind"`
	Low          float64   `json:"low"`
	High         float64   `json:"high"`
	Log          bool      `json:"log"`
	Values       []any     `json:"values,omitempty"`
	Parent       string    `json:"parent,omitempty"`
	ParentValues []any     `json:"parent_values,omitempty"`
}

// A peerRequest is a line that a program gets: the start of a search, a question for a trial, or a
// report of one. Which fields it has depends on Op.
type peerRequest struct {
	Op      string  `json:"op"`
	Now     float64 `json:"now"`
	Rule    string  `json:"rule,omitempty"`
	Workers int     `json:"workers,omitempty"`
	Seed    uint64  `json:"seed"`

	// Last is, of a start, the last step of the longest training; of a report, whether it is the
	// last.
	Last any `json:"last,omitempty"`

	Budget float64     `json:"budget,omitempty"`
	Space  []peerParam `json:"space,omitempty"`
	Trial  int         `json:"trial"`
	Step   int         `json:"step,omitempty"`
	Value  *float64    `json:"value"`
}

// A peerAnswer is the line that a program answers: to a question a trial, or that it waits or is
// done; to a report what becomes of the trial.
type peerAnswer struct {
	Trial  *int                       `json:"trial"`
	Params map[string]json.RawMessage `json:"params"`
	Wait   bool                       `json:"wait"`
	Done   bool                       `json:"done"`
	Action tune.Action                `json:"action"`
	Error  string                     `json:"error"`
}

// A peerSearch is a search by a peerProgram.
type peerSearch struct {
	space               tune.Space
	cmd                 *exec.Cmd
	stdin               io.WriteCloser
	stdout              *bufio.Reader
	params              []tune.Params
	proposals, verdicts []time.Duration
}

// start begins a search.
func (p peerProgram) start(problem curvetest.Problem, rule string, workers int, seed uint64) (curvetest.Search, error) {
	s := &peerSearch{space: problem.Space, cmd: exec.Command(p.command[0], p.command[1:]...)}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("tune: %s: %w", p.name, err)
	}
	s.stdout = bufio.NewReader(out)
	if s.stdin, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("tune: %s: %w", p.name, err)
	}
	r := peerRequest{Op: "start", Rule: rule, Workers: workers, Seed: seed, Last: problem.Last, Budget: 100 * problem.FullTraining()}
	for _, q := range problem.Space {
		r.Space = append(r.Space, peerParam{q.Name, q.Kind, q.Low, q.High, q.Spec.Log, q.Values, q.Parent, q.ParentValues})
	}
	if _, err := s.ask(r); err != nil {
		return nil, errors.Join(fmt.Errorf("tune: %s: %w", p.name, err), s.Close())
	}
	return s, nil
}

// ask sends a request and waits for its answer. There is one at a time.
func (s *peerSearch) ask(r peerRequest) (peerAnswer, error) {
	var a peerAnswer
	b, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	if _, err := s.stdin.Write(append(b, '\n')); err != nil {
		return a, fmt.Errorf("write a request: %w", err)
	}
	line, err := s.stdout.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("read an answer: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("answer %.100q: want a JSON object: %w", line, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("the program answers: %s", a.Error)
	}
	return a, nil
}

// Next implements curvetest.Search.
func (s *peerSearch) Next(now time.Duration) (int, tune.Params, error) {
	begin := time.Now()
	a, err := s.ask(peerRequest{Op: "ask", Now: now.Seconds()})
	switch {
	case err != nil:
		return 0, tune.Params{}, err
	case a.Done:
		return 0, tune.Params{}, tune.ErrDone
	case a.Wait:
		return 0, tune.Params{}, tune.ErrWait
	case a.Trial == nil:
		return 0, tune.Params{}, errors.New("the answer has none of trial, wait and done")
	case *a.Trial >= 0 && *a.Trial < len(s.params):
		return *a.Trial, s.params[*a.Trial], nil
	}
	s.proposals = append(s.proposals, time.Since(begin))
	p, err := s.space.Fill(tune.Params{}, func(q tune.Param, _ tune.Params) (any, error) {
		raw, ok := a.Params[q.Name]
		if !ok {
			return nil, fmt.Errorf("parameter %q is missing in the answer", q.Name)
		}
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var x any
		if err := d.Decode(&x); err != nil {
			return nil, err
		}
		if n, ok := x.(json.Number); ok {
			if i, err := n.Int64(); err == nil && q.Kind == tune.KindInt {
				return i, nil
			}
			f, err := n.Float64()
			if err != nil {
				return nil, err
			}
			// Libraries round the ends of a range.
			if q.Kind == tune.KindReal {
				f = min(max(f, q.Low), q.High)
			}
			return f, nil
		}
		return x, nil
	})
	if err != nil {
		return 0, tune.Params{}, err
	}
	s.params = append(s.params, p)
	return *a.Trial, p, nil
}

// Report implements curvetest.Search.
func (s *peerSearch) Report(now time.Duration, trial, step int, value float64, last bool) (tune.Action, error) {
	begin := time.Now()
	r := peerRequest{Op: "report", Now: now.Seconds(), Trial: trial, Step: step, Last: last}
	if !math.IsNaN(value) {
		r.Value = &value
	}
	a, err := s.ask(r)
	if err == nil && a.Action != tune.Continue && a.Action != tune.Stop && a.Action != tune.Pause {
		err = fmt.Errorf("answer to a report: action %q: want %q, %q or %q", a.Action, tune.Continue, tune.Stop, tune.Pause)
	}
	s.verdicts = append(s.verdicts, time.Since(begin))
	return a.Action, err
}

// End implements curvetest.Search.
func (s *peerSearch) End(now time.Duration, trial int) error {
	_, err := s.ask(peerRequest{Op: "end", Now: now.Seconds(), Trial: trial})
	return err
}

// Times are how long proposals and decisions about reports took, the way to the program and back
// included.
func (s *peerSearch) Times() (proposals, verdicts []time.Duration) { return s.proposals, s.verdicts }

// Close ends the program: its standard input ends.
func (s *peerSearch) Close() error {
	s.stdin.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	io.Copy(io.Discard, s.stdout)
	return s.cmd.Wait()
}
