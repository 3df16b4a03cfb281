package schedule

import (
	"slices"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

func TestHyperbandTables(t *testing.T) {
	oracle := readOracle(t)
	for _, tc := range []struct {
		name  string
		steps int
		eta   float64
	}{{"hyperband_R81_eta3", 81, 3}, {"hyperband_R27_eta3", 27, 3}, {"hyperband_R64_eta4", 64, 4}} {
		var want []struct {
			S      int
			Rounds [][2]float64
		}
		into(t, oracle[tc.name], &want)
		got, err := HyperbandTable(PaperTable, tc.steps, tc.eta)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d brackets (%v), want %d", tc.name, len(got), err, len(want))
		}
		for i, b := range got {
			if b.S != want[i].S || len(b.Rounds) != len(want[i].Rounds) {
				t.Fatalf("%s: bracket %+v, want %+v", tc.name, b, want[i])
			}
			for j, r := range b.Rounds {
				if w := want[i].Rounds[j]; float64(r.Trials) != w[0] || float64(r.Steps) != w[1] {
					t.Errorf("%s bracket %d round %d: got %+v, want %v", tc.name, i, j, r, w)
				}
			}
		}
	}
	var ray []struct{ S, N0, R0 int }
	into(t, oracle["ray_hyperband_81_3"], &ray)
	got, err := HyperbandTable(RayTable, 81, 3)
	if err != nil || len(got) != len(ray) {
		t.Fatalf("Ray: %d brackets (%v), want %d", len(got), err, len(ray))
	}
	for i, w := range ray {
		if r := got[i].Rounds[0]; got[i].S != w.S || r.Trials != w.N0 || r.Steps != w.R0 {
			t.Errorf("Ray bracket %d: got s=%d %+v, want %+v", i, got[i].S, r, w)
		}
	}
	got, err = HyperbandTable(PrintedTable, 81, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{81, 27, 9, 6, 5} {
		if n := got[i].Rounds[0].Trials; n != want {
			t.Errorf("printed table, bracket %d: %d trials, want %d", i, n, want)
		}
	}
	var budgets []int
	into(t, oracle["optuna_hyperband_budgets_1_27_3"], &budgets)
	if got := OptunaBudgets(1, 27, 3); !slices.Equal(got, budgets) {
		t.Errorf("Optuna: got %v, want %v", got, budgets)
	}
}

// All brackets of one pass, filled by trials whose quality falls with their number: in each round
// the planned number of trials reaches the planned step, and the best of each bracket the last one.
func TestHyperbandRunsItsTable(t *testing.T) {
	for _, table := range []string{PaperTable, PrintedTable, RayTable} {
		plan, err := HyperbandTable(table, 27, 3)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, b := range plan {
			total += b.Rounds[0].Trials
		}
		var curves [][]float64
		for i := range total {
			c := make([]float64, 27)
			for e := range c {
				c[e] = float64(e) - float64(i)
			}
			curves = append(curves, c)
		}
		for name, p := range map[string]*player{
			"one slot":    newPlayer(&Hyperband{MaxStep: 27, Table: table}, curves).slots(1),
			"seven slots": newPlayer(&Hyperband{MaxStep: 27, Table: table}, curves).slots(7),
		} {
			first := 0
			for _, b := range plan {
				want := make([]int, 0, b.Rounds[0].Trials)
				for i := range b.Rounds[0].Trials {
					last := 0
					for _, r := range b.Rounds {
						if i < r.Trials {
							last = r.Steps
						}
					}
					want = append(want, last)
				}
				if got := p.reached()[first : first+len(want)]; !slices.Equal(got, want) {
					t.Errorf("table %q, %s, bracket s=%d: reached %v, want %v", table, name, b.S, got, want)
				}
				first += len(want)
			}
			for _, trial := range p.All {
				if !trial.State.Final() {
					t.Errorf("table %q, %s: trial %d is left %s", table, name, trial.Number, trial.State)
				}
			}
		}
	}
}

// A bracket that is not filled when there are no more trials, or whose trials fail, still ends.
func TestHyperbandEndsWithoutAFullBracket(t *testing.T) {
	curves := make([][]float64, 5)
	for i := range curves {
		for e := range 27 {
			curves[i] = append(curves[i], float64(e+i))
		}
	}
	p := newPlayer(&Hyperband{MaxStep: 27}, curves)
	for range curves {
		p.start()
	}
	p.End(p.All[4], tune.Failed)
	p.s.Ended(p, 4)
	p.slots(2)
	// Running trials were started by hand: let them go on.
	for running := true; running; {
		running = false
		for _, trial := range p.All {
			if trial.State == tune.Running {
				p.step(trial.Number)
				running = true
			}
		}
		p.slots(2)
	}
	if got := p.All[3]; got.State != tune.Completed {
		t.Errorf("the best trial that did not fail is %s at step %d, want completed (reached %v)", got.State, lastStep(got), p.reached())
	}
}

func TestOptunaHyperbandUsesAllItsSets(t *testing.T) {
	budgets := OptunaBudgets(1, 27, 3)
	count := make([]int, len(budgets))
	for trial := range 4900 {
		count[optunaBracket(budgets, "study", trial)]++
	}
	for i, b := range budgets {
		if want := b * 100; count[i] < want*8/10 || count[i] > want*12/10 {
			t.Errorf("set %d gets %d of 4900 trials, want about %d", i, count[i], want)
		}
	}
	p := newPlayer(&OptunaHyperband{MaxStep: 27}, series(t)).roundRobin()
	cut := 0
	for _, trial := range p.All {
		if trial.State == tune.Pruned {
			cut++
		}
	}
	if cut == 0 || cut == 12 {
		t.Errorf("%d of 12 trials are cut (%v)", cut, p.reached())
	}
}

// The last trial of a round fails: no report ends the round, so the free slot goes to the best of
// those that wait.
func TestHyperbandGoesOnWhenTheLastOneFails(t *testing.T) {
	curves := make([][]float64, 20)
	for i := range curves {
		curves[i] = []float64{float64(i % 9), 1, 2, 3, 4, 5, 6, 7, 8}
	}
	p := newPlayer(&Hyperband{MaxStep: 9}, curves) // the first bracket has nine trials
	for i := range 9 {
		p.start()
		if i < 8 {
			p.step(i)
		}
	}
	p.End(p.All[8], tune.Failed)
	p.s.Ended(p, 8)
	for _, want := range []int{7, 6} { // two of eight go on: the same part as three of nine
		pick := p.s.Next(p)
		if pick.Kind != tune.ChoosePaused || pick.Trial != want {
			t.Fatalf("got %v, want trial %d", pick, want)
		}
		p.goOn(want)
	}
	if pick := p.s.Next(p); pick.Kind != tune.ChooseNew {
		t.Errorf("then: got %v, want a new trial", pick)
	}
	p.step(7)
	for _, o := range p.log[len(p.log)-1].Others {
		if o.Action != tune.Stop || o.Trial > 5 {
			t.Errorf("order %+v, want the six worst stopped", o)
		}
	}
	if n := len(p.log[len(p.log)-1].Others); n != 6 {
		t.Errorf("%d orders, want 6", n)
	}
}
