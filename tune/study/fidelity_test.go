package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/schedule"
)

const widths = "metric: a\nmode: max\ncommand: ./x --lr {lr} --width {width}\nspace: {lr: {real: [0, 1]}}\nfidelity: {parameter: width, low: 16, high: 128, eta: 2}\n"

// A rule that does not say its steps gets those of the levels.
func TestARuleOverFidelitiesHasTheirSteps(t *testing.T) {
	steps := func(s tune.Scheduler) (least, most int, eta float64) {
		switch s := s.(type) {
		case *schedule.ASHA:
			return s.MinStep, s.MaxStep, s.Eta
		case *schedule.Hyperband:
			return 0, s.MaxStep, s.Eta
		case *schedule.Predict:
			return 0, s.MaxStep, 0
		}
		return 0, 0, 0
	}
	for _, tc := range []struct {
		more        string
		least, most int
		eta         float64
	}{
		{"", 16, 128, 2}, {"scheduler: promotion", 16, 128, 2}, {"scheduler: asha", 16, 128, 2}, {"scheduler: hyperband", 0, 128, 2},
		{"scheduler: {asha: {eta: 4}}", 16, 128, 4}, {"scheduler: {asha: {max_step: 128}}", 16, 128, 2}, {"scheduler: predict", 0, 128, 0}, {"scheduler: fifo", 0, 0, 0},
	} {
		s, err := Parse("f", []byte(widths+tc.more))
		if err != nil {
			t.Errorf("%q: %v", tc.more, err)
			continue
		}
		if least, most, eta := steps(s.Config.Scheduler); least != tc.least || most != tc.most || eta != tc.eta {
			t.Errorf("%q: got steps %d to %d by %v, want %d to %d by %v", tc.more, least, most, eta, tc.least, tc.most, tc.eta)
		}
		p := tune.MustParams("lr", 0.5, "width", 32)
		if got, want := s.Command(tune.Attempt{Params: p}), strings.Fields("./x --lr 0.5 --width 32"); !slices.Equal(got, want) {
			t.Errorf("%q: got the command %q, want %q", tc.more, got, want)
		}
	}
}

func TestMistakesOfAFidelityNameLineAndField(t *testing.T) {
	for _, tc := range []struct{ was, is, want string }{
		{"low: 16", "low: small", `f line 5: fidelity.low: got "small", want a number`},
		{"low: 16", "low: 0", "f line 5: fidelity: low is 0, want more than 0"},
		{"low: 16", "low: 256", "f line 5: fidelity: high is 128 and low 256"},
		{"low: 16", "lowest: 16", "f line 5: fidelity.lowest: there is no such field (did you mean low?)"},
		{"parameter: width, ", "", "f line 5: fidelity: it has no parameter"},
		{"space: {", "space: {width: {int: [1, 9]}, ", `f line 5: fidelity: parameter "width" is in the space, too`},
		{" --width {width}", "", "f line 3: command: it names parameters, but not {width}"},
		{"{width}", "{width} {checkpoint}", "f line 3: command: {checkpoint} has no use with fidelity"},
		{"fidelity:", "scheduler: goodput\nfidelity:", "divides nodes among trials"},
		{"fidelity:", "scheduler: {asha: {min_step: 32}}\nfidelity:", "f line 5: scheduler: it has steps from 32 to 128, and the levels of fidelity those from 16 to 128"},
		{"fidelity:", "scheduler: {predict: {max_step: 5}}\nfidelity:", "f line 5: scheduler: it has steps from 16 to 5"},
		{"fidelity:", "scheduler: {asha: {guard: true}}\nfidelity:", "f line 5: scheduler: *schedule.ASHA follows a trial over its steps"},
		{"fidelity:", "scheduler: {any: [median, {patience: {reports: 2}}]}\nfidelity:", "f line 5: scheduler: schedule.Any follows a trial over its steps"},
		{"fidelity:", "pruners: [trial_plateau]\nfidelity:", "f line 5: pruners[0]: schedule.TrialPlateau follows a trial over its steps"},
		{"metric: a\nmode: max", "objectives: {a: max, b: min}", "f line 4: fidelity: the rule that decides"},
	} {
		if _, err := Parse("f", []byte(strings.Replace(widths, tc.was, tc.is, 1))); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q for %q: got %v, want %q", tc.is, tc.was, err, tc.want)
		}
	}
}
