package schedule

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func series(t *testing.T) [][]float64 {
	t.Helper()
	var curves [][]float64
	into(t, readOracle(t)["curves"], &curves)
	if len(curves) != 12 {
		t.Fatalf("%d curves, want 12", len(curves))
	}
	return curves
}

// play runs in both orders.
func play(s func() tune.Scheduler, curves [][]float64) map[string]*player {
	return map[string]*player{
		"round_robin": newPlayer(s(), curves).roundRobin(),
		"sequential":  newPlayer(s(), curves).slots(1),
	}
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol }

func TestStoppingMatchesRaysLog(t *testing.T) {
	oracle := readOracle(t)
	for order, p := range play(func() tune.Scheduler { return &ASHA{MaxStep: 27} }, series(t)) {
		var want struct{ Log [][5]any }
		into(t, oracle["ray_asha_"+order], &want)
		n := 0
		for _, l := range p.log {
			if l.Rule == "" {
				continue // between rungs
			}
			if n == len(want.Log) {
				t.Fatalf("%s: more than the %d decisions wanted: %+v", order, n, l)
			}
			w := want.Log[n]
			n++
			cutoff, _ := w[3].(float64)
			action := map[string]tune.Action{"CONTINUE": tune.Continue, "STOP": tune.Stop, "STOP(max_t)": tune.Complete}[w[4].(string)]
			if float64(l.trial) != w[0] || float64(l.step) != w[1] || l.Value != w[2] || l.Action != action ||
				(w[3] == nil) != math.IsNaN(l.Cutoff) || (w[3] != nil && !near(l.Cutoff, cutoff, 1.1e-6)) {
				t.Errorf("%s decision %d: got %d@%d %v cutoff %v %s, want %v", order, n-1, l.trial, l.step, l.Value, l.Cutoff, l.Action, w)
			}
		}
		if n != len(want.Log) {
			t.Errorf("%s: %d decisions, want %d", order, n, len(want.Log))
		}
	}
}

func TestStoppingMatchesAutoGluonsLog(t *testing.T) {
	oracle := readOracle(t)
	for order, p := range play(func() tune.Scheduler { return &ASHA{MaxStep: 27} }, series(t)) {
		var want struct{ Log [][5]any }
		into(t, oracle["autogluon_stopping_"+order], &want)
		n := 0
		for _, l := range p.log {
			if l.Rule == "" || l.Action == tune.Complete {
				continue
			}
			w := want.Log[n]
			n++
			if float64(l.trial) != w[0] || float64(l.step) != w[1] || l.Value != w[2] || (l.Action == tune.Continue) != w[3].(bool) {
				t.Errorf("%s decision %d: got %d@%d %v %s, want %v", order, n-1, l.trial, l.step, l.Value, l.Action, w)
			}
		}
		if n != len(want.Log) {
			t.Errorf("%s: %d decisions, want %d", order, n, len(want.Log))
		}
	}
}

// The log says for each start of a slot: new or promoted, how far to, what it ran to, and the value
// there.
func TestPromotionMatchesAutoGluonsLog(t *testing.T) {
	var want struct{ Log [][5]any }
	into(t, readOracle(t)["autogluon_promotion_one_worker"], &want)
	p := newPlayer(&ASHA{Rule: Promotion, MaxStep: 27}, series(t)).slots(1)
	type run struct {
		trial, step int
		value       float64
	}
	var runs []run
	for _, l := range p.log {
		if l.Action != tune.Continue {
			runs = append(runs, run{l.trial, l.step, l.Value})
		}
	}
	if len(p.starts) < len(want.Log) || len(runs) < len(want.Log) {
		t.Fatalf("got %d starts and %d runs, want %d", len(p.starts), len(runs), len(want.Log))
	}
	seen := make(map[int]bool)
	for i, w := range want.Log {
		kind := "new"
		if seen[p.starts[i]] {
			kind = "promote"
		}
		seen[p.starts[i]] = true
		if r := runs[i]; kind != w[0] || float64(r.trial) != w[1] || float64(r.step) != w[3] || r.value != w[4] {
			t.Errorf("start %d: got %s %+v, want %v", i, kind, r, w)
		}
	}
	for _, trial := range p.All {
		if trial.State == tune.Paused && lastStep(trial) == 27 {
			t.Errorf("trial %d is paused at the last step", trial.Number)
		}
	}
}

func TestOptunaRuleMatches(t *testing.T) {
	oracle := readOracle(t)
	for _, eta := range []float64{3, 4} {
		for order, p := range play(func() tune.Scheduler { return &ASHA{Rule: OptunaRule, MinStep: 1, Eta: eta} }, series(t)) {
			ends(t, oracle["optuna_sha_min1_rf"+strconv.Itoa(int(eta))+"_"+order], p)
		}
	}
}

func TestDeterminedRuleMatches(t *testing.T) {
	oracle := readOracle(t)
	for order, p := range play(func() tune.Scheduler { return &ASHA{Rule: DeterminedRule, MaxStep: 27, Rungs: 4} }, series(t)) {
		var want struct{ Dead json.RawMessage }
		into(t, oracle["determined_async_halving_"+order], &want)
		ends(t, want.Dead, p)
	}
}

// ends compares how and where each trial ended.
func ends(t *testing.T, raw json.RawMessage, p *player) {
	t.Helper()
	var want map[string][2]any
	into(t, raw, &want)
	if len(want) != p.Len() {
		t.Fatalf("%d trials, want %d", p.Len(), len(want))
	}
	for key, w := range want {
		n, _ := strconv.Atoi(key)
		state := tune.Pruned
		if w[0] == "complete" || w[0] == "top" {
			state = tune.Completed
		}
		if got := p.All[n]; got.State != state || float64(lastStep(got)) != w[1] {
			t.Errorf("trial %d: got %s at %d, want %v", n, got.State, lastStep(got), w)
		}
	}
}

// The example in Ray's documentation: two trials at a rung, and a third below their percentile.
func TestStoppingDocExample(t *testing.T) {
	a := &ASHA{MinStep: 1, MaxStep: 10, Eta: 2}
	p := newPlayer(a, [][]float64{{2, 2}, {4, 4}, {1, 1}})
	for i := range 3 {
		p.start()
		p.step(i)
	}
	if d := p.log[2].Decision; d.Cutoff != 3 || d.Action != tune.Stop {
		t.Errorf("third report: got %s at cutoff %v, want stop at 3", d.Action, d.Cutoff)
	}
	if d := p.log[1].Decision; d.Cutoff != 2 || d.Action != tune.Continue {
		t.Errorf("second report: got %s at cutoff %v, want continue at 2", d.Action, d.Cutoff)
	}
}

func TestBracketProbabilities(t *testing.T) {
	var want []float64
	into(t, readOracle(t)["autogluon_bracket_probs_levels_1_3_9_27"], &want)
	got, err := bracketWeights(BracketsByBudget, rungLevels(1, 27, 3, 0), 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !near(got[i], want[i], 1e-12) {
			t.Errorf("bracket %d: got %v, want %v", i, got[i], want[i])
		}
	}
	count := make([]float64, 4)
	for trial := range 20000 {
		count[pick(got, 5, trial)]++
	}
	for i := range want {
		if f := count[i] / 20000; math.Abs(f-want[i]) > 0.02 {
			t.Errorf("bracket %d: drawn with frequency %v, want %v", i, f, want[i])
		}
	}
}

func TestASHASaysWhatIsWrong(t *testing.T) {
	for _, a := range []*ASHA{{}, {MaxStep: 5, MinStep: 9}, {MaxStep: 9, Eta: 0.5}, {MaxStep: 9, Rule: "x"}, {MaxStep: 9, Brackets: 4},
		{MaxStep: 9, Brackets: 2, BracketRule: "y"}, {MaxStep: 9, Rule: DeterminedRule, Brackets: 2}, {MaxStep: -1}} {
		if err := a.Validate(); err == nil {
			t.Errorf("%+v: no error", a)
		} else {
			t.Log(err)
		}
	}
}

// What equals the cutoff goes on; who of equals goes on is the rule's.
func TestEqualValuesAtARung(t *testing.T) {
	for _, tc := range []struct {
		rule string
		want []tune.Action
	}{
		{Stopping, []tune.Action{tune.Continue, tune.Continue, tune.Continue}},
		{Promotion, []tune.Action{tune.Pause, tune.Pause, tune.Pause}}, // the first of three is the best, and not the last
		{OptunaRule, []tune.Action{tune.Continue, tune.Continue, tune.Continue}},
		{DeterminedRule, []tune.Action{tune.Continue, tune.Continue, tune.Continue}}, // the newest is the best
	} {
		p := newPlayer(&ASHA{Rule: tc.rule, MinStep: 1, MaxStep: 9}, [][]float64{{5, 5}, {5, 5}, {5, 5}})
		for i, want := range tc.want {
			p.start()
			p.step(i)
			if got := p.log[i].Action; got != want {
				t.Errorf("rule %q, report %d of the same value: got %s, want %s", tc.rule, i, got, want)
			}
		}
		if pick := p.s.Next(p); tc.rule == Promotion && (pick.Kind != tune.ChoosePaused || pick.Trial != 0) {
			t.Errorf("of equals %v is promoted, want trial 0", pick)
		}
	}
}
