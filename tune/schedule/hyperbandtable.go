package schedule

import (
	"fmt"
	"hash/crc32"
	"math"
)

// The tables of Hyperband's brackets.
const (
	// PaperTable, the zero table, is the formula of Li et al. (2018, JMLR 18-185, algorithm 1):
	// bracket s begins with n = ⌈B/R·eta^s/(s+1)⌉ trials and R·eta^(−s) steps, B = (s_max+1)·R,
	// and keeps ⌊n_i/eta⌋. The bracket with the most trials comes first.
	PaperTable = ""
	// PrintedTable is the one that the paper prints as an example (its table 1), which rounds
	// B/R/(s+1) down first: with 81 steps and eta 3 the brackets begin with 81, 27, 9, 6 and 5
	// trials in place of 81, 34, 15, 8 and 5.
	PrintedTable = "printed"
	// RayTable is Ray Tune's: s_max is rounded and not cut, bracket s keeps ⌈n_i/eta⌉, and the
	// one with the fewest trials comes first.
	RayTable = "ray"
)

// A HyperbandRound is one round of a bracket: so many trials reach so many steps.
type HyperbandRound struct{ Trials, Steps int }

// A HyperbandBracket is one column of Hyperband's table.
type HyperbandBracket struct {
	S      int
	Rounds []HyperbandRound
}

// HyperbandTable is the plan of one pass of Hyperband to the given number of steps.
func HyperbandTable(table string, steps int, eta float64) ([]HyperbandBracket, error) {
	if steps < 1 || !(eta > 1) {
		return nil, fmt.Errorf("schedule: Hyperband: %d steps, eta %v: want at least 1 and more than 1", steps, eta)
	}
	top, logs := float64(steps), math.Log(float64(steps))/math.Log(eta)
	smax := int(math.Floor(logs + 1e-9))
	stepsOf := func(s, i int) int { return max(int(top*math.Pow(eta, float64(i-s))+1e-9), 1) }
	if table == RayTable {
		smax = int(math.Round(logs))
		stepsOf = func(s, i int) int {
			r := max(int(top*math.Pow(eta, float64(-s))+1e-9), 1)
			return min(int(float64(r)*math.Pow(eta, float64(i))+1e-9), steps)
		}
	}
	return hyperbandTable(table, smax, eta, stepsOf)
}

// levelTable is the plan of one pass over the levels of a fidelity, whose steps are given: bracket
// s has the s+1 highest.
func levelTable(table string, steps []int, eta float64) ([]HyperbandBracket, error) {
	smax := len(steps) - 1
	return hyperbandTable(table, smax, eta, func(s, i int) int { return steps[smax-s+i] })
}

// hyperbandTable is the plan with brackets 0 to smax. stepsOf says how many steps round i of
// bracket s has.
func hyperbandTable(table string, smax int, eta float64, stepsOf func(s, i int) int) (all []HyperbandBracket, err error) {
	switch table {
	case PaperTable, PrintedTable:
		for s := smax; s >= 0; s-- {
			n := ceil(float64(smax+1) * math.Pow(eta, float64(s)) / float64(s+1))
			if table == PrintedTable {
				n = (smax + 1) / (s + 1) * ceil(math.Pow(eta, float64(s)))
			}
			b := HyperbandBracket{S: s}
			for i := range s + 1 {
				b.Rounds = append(b.Rounds, HyperbandRound{n, stepsOf(s, i)})
				n = max(int(float64(n)/eta+1e-9), 1)
			}
			all = append(all, b)
		}
	case RayTable:
		for s := range smax + 1 {
			n := ceil(float64(smax+1) / float64(s+1) * math.Pow(eta, float64(s)))
			b := HyperbandBracket{S: s}
			for i := range s + 1 {
				b.Rounds = append(b.Rounds, HyperbandRound{n, stepsOf(s, i)})
				n = ceil(float64(n) / eta)
			}
			all = append(all, b)
		}
	default:
		return nil, fmt.Errorf("schedule: Hyperband: table %q: want %q, %q or %q", table, PaperTable, PrintedTable, RayTable)
	}
	return all, nil
}

func ceil(x float64) int { return int(math.Ceil(x - 1e-9)) }

// OptunaBudgets are the shares of trials that Optuna's Hyperband gives to its brackets, that with
// the lowest rung first.
func OptunaBudgets(least, top int, eta float64) []int {
	n := int(math.Floor(math.Log(float64(top)/float64(least))/math.Log(eta)+1e-9)) + 1
	var budgets []int
	for b := range n {
		s := n - 1 - b
		budgets = append(budgets, ceil(float64(n)*math.Pow(eta, float64(s))/float64(s+1)))
	}
	return budgets
}

// optunaBracket is the bracket of a trial: a checksum of the study and the number, modulo all
// budgets.
func optunaBracket(budgets []int, study string, trial int) int {
	total := 0
	for _, b := range budgets {
		total += b
	}
	n := int(crc32.ChecksumIEEE(fmt.Appendf(nil, "%s_%d", study, trial)) % uint32(total))
	for i, b := range budgets {
		if n -= b; n < 0 {
			return i
		}
	}
	return len(budgets) - 1
}
