package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/suggest"
)

func TestFileNamesObjectivesAndConstraints(t *testing.T) {
	s, err := Parse("f", []byte(`
objectives: {latency: min, accuracy: max}
constraints: [memory <= 8, "accuracy>=1e-1"]
command: ./x
space: {lr: {real: [0, 1]}}
suggester: {nsga2: {population: 20}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Config.Objectives, []tune.Objective{{Metric: "latency", Mode: tune.Min}, {Metric: "accuracy", Mode: tune.Max}}; !slices.Equal(got, want) {
		t.Errorf("objectives %v, want %v", got, want)
	}
	if got, want := s.Config.Constraints, []tune.Constraint{{Metric: "memory", Bound: 8}, {Metric: "accuracy", Bound: 0.1, AtLeast: true}}; !slices.Equal(got, want) {
		t.Errorf("constraints %v, want %v", got, want)
	}
	if n, ok := s.Config.Suggester.(*suggest.NSGA2); !ok || n.Population != 20 {
		t.Errorf("the suggester is %T, want NSGA2 of 20", s.Config.Suggester)
	}
	for _, tc := range []struct{ line, want string }{
		{"objectives: {a: up, b: max}", `f line 1: objectives.a: got "up", want max or min`},
		{"objectives: [a, b]", "f line 1: objectives: got a list, want fields"},
		{"objectives: {a: max, b: min}\nmetric: a", "objectives: Metric or Mode are set, too"},
		{"metric: a\nconstraints: [memory 8]", `f line 2: constraints[0]: got "memory 8", want a metric and its bound`},
		{"metric: a\nconstraints: [memory <= much]", `got "memory <= much", want a metric and its bound`},
		{"objectives: {a: max, b: min}\nsuggester: tpe", "judges trials by one metric"},
	} {
		if _, err := Parse("f", []byte(tc.line+"\ncommand: ./x\nspace: {lr: {real: [0, 1]}}\n")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n got %v\nwant %s", tc.line, err, tc.want)
		}
	}
}
