package schedule

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/tune"
	"github.com/paragon-train/paragon/tune/tunetest"
)

func TestQuantileSizes(t *testing.T) {
	for _, tc := range []struct {
		n    int
		part float64
		want int
	}{{8, 0, 2}, {3, 0, 1}, {2, 0, 1}, {3, 0.5, 1}, {1, 0, 0}, {0, 0, 0}, {4, 0.25, 1}, {5, 0.25, 2}, {10, 0.5, 5}} {
		if got := quantileSize(tc.n, tc.part); got != tc.want {
			t.Errorf("%d trials, part %v: got %d, want %d", tc.n, tc.part, got, tc.want)
		}
	}
}

var pbtSpace = tune.Space{tune.Real("lr", 0.001, 1).Log(), tune.Int("layers", 1, 100), tune.Choice("opt", "a", "b", "c"), tune.Bool("nesterov"),
	tune.Real("momentum", 0, 1).When("opt", "a")}

func params(t *testing.T, space tune.Space, values map[string]any) tune.Params {
	t.Helper()
	p, err := space.Fill(tune.Params{}, func(p tune.Param, _ tune.Params) (any, error) { return values[p.Name], nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestExploreMovesEachKindOfParameter(t *testing.T) {
	donor := params(t, pbtSpace, map[string]any{"lr": 0.1, "layers": 7, "opt": "b", "nesterov": false})
	e := Explore{Resample: -1}
	seen := make(map[string]bool)
	for seed := range uint64(60) {
		p, how, err := e.From(pbtSpace, donor, tune.Params{}, tunetest.Rand(seed))
		if err != nil {
			t.Fatal(err)
		}
		if lr := p.Float("lr"); math.Abs(lr-0.12) > 1e-12 && math.Abs(lr-0.08) > 1e-12 {
			t.Errorf("lr: got %v, want 0.12 or 0.08", lr)
		}
		if n := p.Int("layers"); n != 8 && n != 5 { // 8.4 and 5.6, cut
			t.Errorf("layers: got %d, want 8 or 5", n)
		}
		if o := p.Text("opt"); o == "b" {
			t.Errorf("opt did not move to a neighbour: %v (%s)", p, how)
		}
		if err := pbtSpace.Contains(p); err != nil {
			t.Error(err)
		}
		for _, name := range p.Names() {
			if name != "momentum" {
				v, _ := p.Get(name)
				b, _ := json.Marshal(v)
				seen[name+string(b)] = true
			}
		}
	}
	for _, want := range []string{"layers8", "layers5", `opt"a"`, `opt"c"`, "nesterovtrue", "nesterovfalse"} {
		if !seen[want] {
			t.Errorf("in 60 draws there was no %s (%v)", want, seen)
		}
	}
}

func TestExploreAtTheBounds(t *testing.T) {
	donor := params(t, pbtSpace, map[string]any{"lr": 1.0, "layers": 100, "opt": "c", "nesterov": true})
	left := false
	for seed := range uint64(30) {
		p, _, err := (&Explore{Resample: -1}).From(pbtSpace, donor, tune.Params{}, tunetest.Rand(seed))
		if err != nil || p.Float("lr") > 1 || p.Int("layers") > 100 {
			t.Errorf("clipped: got %v (%v)", p, err)
		}
		p, _, err = (&Explore{Resample: -1, Unclipped: true}).From(pbtSpace, donor, tune.Params{}, tunetest.Rand(seed))
		if err != nil {
			t.Error(err)
		}
		left = left || p.Float("lr") == 1.2 && p.Int("layers") != 100
	}
	if !left {
		t.Error("unclipped: lr never leaves its range")
	}
}

func TestExploreResamplesMutatesAndKeepsWhatIsFixed(t *testing.T) {
	donor := params(t, pbtSpace, map[string]any{"lr": 0.1, "layers": 7, "opt": "b", "nesterov": false})
	fixed, _ := tune.Params{}.With("opt", "b")
	far := 0
	for seed := range uint64(50) {
		p, _, err := (&Explore{Resample: 1, Mutate: []string{"lr", "opt"}}).From(pbtSpace, donor, fixed, tunetest.Rand(seed))
		if err != nil {
			t.Fatal(err)
		}
		if p.Int("layers") != 7 || p.Bool("nesterov") || p.Text("opt") != "b" {
			t.Errorf("got %v, want only lr to change", p)
		}
		if lr := p.Float("lr"); lr < 0.05 || lr > 0.2 {
			far++
		}
	}
	if far < 20 {
		t.Errorf("%d of 50 resampled rates are far from the donor's", far)
	}
	p, _, err := (&Explore{Custom: func(p tune.Params, _ *rand.Rand) (tune.Params, error) { return p.With("layers", 1) }}).From(pbtSpace, donor, tune.Params{}, tunetest.Rand(1))
	if err != nil || p.Int("layers") != 1 {
		t.Errorf("custom: got %v (%v)", p, err)
	}
}

// Four trials, a slot each: the worst goes on from the best. Asynchronously that is when it comes
// to its look and all have a score, at step 4; synchronously as soon as the last one has come to
// step 2.
func TestPBTCopiesTheBestOverTheWorst(t *testing.T) {
	curves := [][]float64{{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}, {4, 4, 4, 4}}
	for name, s := range map[string]*PBT{"asynchronous": {Population: 4, Interval: 2}, "synchronous": {Population: 4, Interval: 2, Synchronous: true}} {
		p := newPlayer(s, curves)
		p.SearchSpace = pbtSpace
		p.ckpt = true
		for i := range curves {
			trial := p.start()
			p.All[trial].Params = params(t, pbtSpace, map[string]any{"lr": 0.1, "layers": 10 * (i + 1), "opt": "b", "nesterov": false})
		}
		steps := map[bool]int{false: 3, true: 2}[s.Synchronous]
		for range steps {
			for i := range curves {
				p.step(i)
			}
		}
		if !s.Synchronous {
			p.step(0)
		}
		want := Exploit{Trial: 0, Donor: 3, Step: 4, DonorStep: 3}
		if s.Synchronous {
			want.Step, want.DonorStep = 2, 2
		}
		log := s.Log()
		if len(log) != 1 {
			t.Fatalf("%s: log %+v, want one exploit", name, log)
		}
		got := log[0]
		if got.Trial != want.Trial || got.Donor != want.Donor || got.Step != want.Step || got.DonorStep != want.DonorStep || got.Before.Int("layers") != 10 {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		last := p.log[len(p.log)-1]
		if !s.Synchronous {
			if got, want := s.trials[0].last, s.trials[3].last; got != want || want != 2 {
				t.Errorf("trial 0 was last looked at at %v, want 2 as its donor, which is at %v", got, want)
			}
			if last.Action != tune.Exploit || last.Donor != 3 || !last.Params.Equal(got.After) {
				t.Errorf("%s: last decision %+v, want an exploit of trial 3", name, last)
			}
			continue
		}
		var orders []string
		for _, o := range last.Others {
			orders = append(orders, fmt.Sprint(o.Trial, " ", o.Action))
		}
		if want := []string{"0 exploit", "0 go on", "1 go on", "2 go on"}; last.trial != 3 || last.Action != tune.Continue || !slices.Equal(orders, want) {
			t.Errorf("%s: last decision of trial %d is %s with orders %q, want trial 3, continue and %q", name, last.trial, last.Action, orders, want)
		}
	}
}

func TestPBTDoesNotCopyWithoutACheckpointNorTooEarly(t *testing.T) {
	for name, s := range map[string]*PBT{"no checkpoint": {Population: 2}, "burn in": {Population: 2, BurnIn: 3}, "interval": {Population: 2, Interval: 3}} {
		p := newPlayer(s, [][]float64{{2, 2}, {1, 1}})
		p.ckpt = name != "no checkpoint"
		p.start()
		p.start()
		for range 2 {
			p.step(0)
			p.step(1)
		}
		for _, l := range p.log {
			if l.Action != tune.Continue {
				t.Errorf("%s: trial %d at %d: %+v", name, l.trial, l.step, l.Decision)
			}
		}
		if name == "no checkpoint" && !strings.Contains(p.log[1].Rule, "no checkpoint") {
			t.Errorf("%s: rule %q does not say so", name, p.log[1].Rule)
		}
	}
}

// Six trials on two slots: those that wait get their turn, the one that has trained least first.
func TestPBTSharesSlots(t *testing.T) {
	curves := make([][]float64, 6)
	for i := range curves {
		for e := range 8 {
			curves[i] = append(curves[i], float64(e)+float64(i)/10)
		}
	}
	for name, s := range map[string]*PBT{"asynchronous": {Population: 6, Interval: 2}, "synchronous": {Population: 6, Interval: 2, Synchronous: true},
		"of unknown number": {Interval: 2}, "synchronous, of unknown number": {Interval: 2, Synchronous: true}} {
		p := newPlayer(s, curves)
		least, most := 0, 0
		slot := []int{-1, -1}
		for range 200 {
			for i := range slot {
				if slot[i] < 0 {
					slot[i] = p.next()
				}
				if slot[i] < 0 {
					continue
				}
				p.step(slot[i])
				if p.All[slot[i]].State != tune.Running {
					slot[i] = -1
				}
			}
			if p.Len() == 6 {
				steps := p.reached()
				least, most = slices.Min(steps), slices.Max(steps)
				if most-least > 4 {
					t.Fatalf("%s: steps are too far apart: %v", name, steps)
				}
			}
		}
		for _, trial := range p.All {
			if trial.State != tune.Completed {
				t.Errorf("%s: trial %d is %s at step %d", name, trial.Number, trial.State, lastStep(trial))
			}
		}
	}
}

// Trial 2 went on from 1 at step 4, which had gone on from 0 at step 2; later 1 changed again,
// which is not 2's history.
func TestPolicyFollowsTheDonors(t *testing.T) {
	at := func(n int) tune.Params {
		return params(t, tune.Space{tune.Int("n", 0, 100)}, map[string]any{"n": n})
	}
	v := &tunetest.View{}
	for _, n := range []int{99, 13, 22} { // as they are at the end
		v.Add(at(n))
	}
	log := []Exploit{
		{Trial: 1, Donor: 0, Step: 2, DonorStep: 2, Before: at(11), After: at(12)},
		{Trial: 2, Donor: 1, Step: 5, DonorStep: 4, Before: at(20), After: at(22)},
		{Trial: 1, Donor: 0, Step: 6, DonorStep: 6, Before: at(12), After: at(13)},
		{Trial: 0, Donor: 2, Step: 7, DonorStep: 7, Before: at(10), After: at(99)},
	}
	p, err := PolicyOf(log, v, 2)
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range map[int]int{1: 10, 2: 10, 3: 12, 4: 12, 5: 22, 9: 22} {
		if got := p.At(step).Int("n"); got != want {
			t.Errorf("step %d: got %d, want %d (%+v)", step, got, want, p)
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadPolicy(b)
	if err != nil || len(again) != len(p) || !again.At(3).Equal(p.At(3)) {
		t.Errorf("read again: %+v (%v)", again, err)
	}
	for _, bad := range []string{"", "[]", "{", `[{"after":3,"params":{}},{"after":1,"params":{}}]`} {
		if _, err := ReadPolicy([]byte(bad)); err == nil {
			t.Errorf("policy %q: no error", bad)
		}
	}
	if _, err := PolicyOf(log, v, 7); err == nil {
		t.Error("policy of an unknown trial: no error")
	}
}

func FuzzReadPolicy(f *testing.F) {
	f.Add([]byte(`[{"after":0,"params":{"n":1},"trial":2},{"after":3,"params":{"n":2},"trial":0}]`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ReadPolicy(b)
		if err != nil {
			return
		}
		p.At(1)
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ReadPolicy(again)
		if err != nil || len(q) != len(p) {
			t.Errorf("read again: %v (%v), want %v", q, err, p)
		}
	})
}
