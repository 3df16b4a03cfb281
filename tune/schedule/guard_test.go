package schedule

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// variants are the four rules on rungs 1, 3 and 9 of 27, with a guard or without.
func variants(guard bool) map[string]func() tune.Scheduler {
	all := make(map[string]func() tune.Scheduler)
	for name, a := range map[string]ASHA{
		"stopping":   {MaxStep: 27},
		"promotion":  {MaxStep: 27, Rule: Promotion},
		"optuna":     {MaxStep: 27, MinStep: 1, Rule: OptunaRule},
		"determined": {MaxStep: 27, Rungs: 4, Rule: DeterminedRule},
	} {
		all[name] = func() tune.Scheduler {
			s := a
			if guard {
				s.Guard = &Guard{}
			}
			return &s
		}
	}
	return all
}

func orders(s func() tune.Scheduler, curves [][]float64) map[string]*player {
	return map[string]*player{
		"round robin": newPlayer(s(), curves).roundRobin(),
		"one slot":    newPlayer(s(), curves).slots(1),
		"four slots":  newPlayer(s(), curves).slots(4),
	}
}

// population makes curves of other kinds: quality, speed, shape and noise are drawn at random. The
// one that ends best is slow: at step 1 it is among the lower half.
func population(seed uint64, n, steps int, kind string) (curves [][]float64, best int) {
	rng := rand.New(rand.NewPCG(seed, 0x9a7d))
	for range n {
		c := make(learning, steps)
		c.fill(0.4+0.5*rng.Float64(), 0.16+0.3*rng.Float64(), kind, rng)
		curves = append(curves, c)
	}
	best = rng.IntN(n)
	for q := 0.9; ; q += 0.05 {
		learning(curves[best]).fill(q, 0.12, kind, rng)
		ahead := true
		for i, c := range curves {
			ahead = ahead && (i == best || c[steps-1]+0.02 < curves[best][steps-1])
		}
		if ahead {
			return curves, best
		}
	}
}

type learning []float64

func (c learning) fill(q, rate float64, kind string, rng *rand.Rand) {
	for e := range c {
		t := float64(e + 1)
		switch kind {
		case "exponential":
			c[e] = q * (1 - math.Exp(-rate*t))
		case "noisy":
			c[e] = q*(1-math.Exp(-rate*t)) + 0.01*rng.NormFloat64()
		case "power":
			c[e] = q * (1 - math.Pow(1+t, -4*rate))
		case "delayed":
			c[e] = q / (1 + math.Exp(-rate*1.5*(t-0.7/rate)))
		}
	}
}

// The series of twelve: trial 5 ends best and starts slowly, and all four rules cut it at step 1.
func TestGuardKeepsTheSlowStarterOfTheSeries(t *testing.T) {
	curves := series(t)
	for name := range variants(false) {
		plain := orders(variants(false)[name], curves)
		for order, p := range orders(variants(true)[name], curves) {
			if got := lastStep(plain[order].All[5]); got != 1 {
				t.Errorf("%s, %s: without a guard trial 5 reaches step %d, want 1", name, order, got)
			}
			if got := lastStep(p.All[5]); got != 27 {
				t.Errorf("%s, %s: trial 5 reaches step %d, want 27", name, order, got)
			}
			kept := 0
			for _, step := range p.reached() {
				if step > 9 {
					kept++
				}
			}
			if all := 12 * 27; kept > 6 || p.spent > all*55/100 {
				t.Errorf("%s, %s: %d trials go beyond step 9 (%v), and %d of %d reports are spent", name, order, kept, p.reached(), p.spent, all)
			}
			t.Logf("%s, %s: reached %v, %d reports (%d without the guard)", name, order, p.reached(), p.spent, plain[order].spent)
		}
	}
}

// Other curves, seeds and orders: the trial that ends best, slow at the start, must nearly always
// live to rung 9, at a cost well below that of running everything.
func TestGuardKeepsSlowStartersOfOtherSeries(t *testing.T) {
	const trials, steps = 30, 27
	seeds := uint64(4)
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		seeds = 20
	}
	for _, kind := range []string{"exponential", "noisy", "power"} {
		for _, name := range []string{"stopping", "promotion", "optuna"} {
			kept, plain, spent, spentPlain, n := 0, 0, 0, 0, 0
			for seed := range seeds {
				c, best := population(seed, trials, steps, kind)
				without := newPlayer(variants(false)[name](), c).slots(4)
				for _, p := range []*player{newPlayer(variants(true)[name](), c).roundRobin(), newPlayer(variants(true)[name](), c).slots(4)} {
					n++
					spent, spentPlain = spent+p.spent, spentPlain+without.spent
					if lastStep(p.All[best]) >= 9 {
						kept++
					}
					if lastStep(without.All[best]) >= 9 {
						plain++
					}
				}
			}
			cost, costPlain := float64(spent)/float64(n*trials*steps), float64(spentPlain)/float64(n*trials*steps)
			t.Logf("%s, %s: kept %d of %d (%d without), reports %.0f %% of all (%.0f %% without)", kind, name, kept, n, plain, 100*cost, 100*costPlain)
			if kept*10 < n*8 || cost > 0.6 {
				t.Errorf("%s, %s: the slow best trial lives in %d of %d, at %.0f %% of all reports", kind, name, kept, n, 100*cost)
			}
		}
	}
}
