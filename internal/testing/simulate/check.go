package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// checks collects what went wrong.
type checks struct {
	wrong []string
}

func (c *checks) fail(format string, args ...any) {
	if len(c.wrong) < 20 {
		// One fault has many consequences, and the first ones tell enough.
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// A closed is one value that a key took, as workers saw it.
type closed struct {
	value []float32
	// acked are the contributions whose round is known to have ended with the value.
	acked []*contribution
	total float64
}

// rounds orders the values that a key took. All contributions are at least zero and some above, so
// that the sum over a value's elements grows with every round.
func (c *checks) rounds(key string, list []*contribution) []*closed {
	var rounds []*closed
	for _, x := range list {
		if x.value == nil {
			continue
		}
		total := 0.0
		for _, v := range x.value {
			total += float64(v)
		}
		i := slices.IndexFunc(rounds, func(r *closed) bool { return slices.Equal(r.value, x.value) })
		if i < 0 {
			i = len(rounds)
			rounds = append(rounds, &closed{value: x.value, total: total})
		}
		rounds[i].acked = append(rounds[i].acked, x)
	}
	slices.SortStableFunc(rounds, func(a, b *closed) int { return cmp.Compare(a.total, b.total) })
	return rounds
}

// sums checks that the values of a key are sums of whole contributions, each once, and returns
// those that are in the last value. lost are workers whose last acknowledged pushes may be missing,
// where a server died as well.
func (c *checks) sums(key string, first []float32, list []*contribution, excuse func(*contribution) bool) map[*contribution]bool {
	in := map[*contribution]bool{}
	// unknown are contributions that may or may not count.
	var unknown []*contribution
	for _, x := range list {
		if x.value == nil {
			unknown = append(unknown, x)
		}
	}
	before := first
	for n, r := range c.rounds(key, list) {
		if len(r.value) != len(first) {
			c.fail("%s round %d: got %d values, want %d", key, n, len(r.value), len(first))
			return in
		}
		rest := make([]float64, len(r.value))
		for i := range rest {
			rest[i] = float64(r.value[i]) - float64(before[i])
		}
		names := make([]string, len(r.acked))
		for k, x := range r.acked {
			names[k] = fmt.Sprintf("%s step %d", x.who, x.step)
			in[x] = true
			subtract(rest, x.grad)
			if slices.ContainsFunc(r.acked[:k], func(y *contribution) bool { return y.who == x.who && !zero(x.grad) && !zero(y.grad) }) {
				c.fail("%s round %d: %s contributed twice to one round", key, n, x.who)
			}
		}
		if !zero64(rest) {
			also := subset(rest, unknown)
			if also == nil {
				c.fail("%s round %d: the value is not the one before plus %s, also not with any of %d contributions that may count: %s", key, n,
					strings.Join(names, ", "), len(unknown), difference(rest))
			}
			for _, x := range also {
				in[x] = true
				unknown = slices.DeleteFunc(unknown, func(y *contribution) bool { return x == y })
			}
		}
		before = r.value
	}
	for _, x := range unknown {
		if x.held && !zero(x.grad) && !excuse(x) {
			c.fail("%s: %s step %d was acknowledged and is in no value", key, x.who, x.step)
		}
	}
	return in
}

func subtract(rest []float64, grad []float32) {
	for i, g := range grad {
		rest[i] -= float64(g)
	}
}

// Contributions are whole numbers, but for the rounding of a mean.
const tolerance = 1e-3

func zero64(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return math.Abs(x) > tolerance })
}

func zero(v []float32) bool {
	return !slices.ContainsFunc(v, func(x float32) bool { return x != 0 })
}

// subset finds some of the contributions, at most one of each worker, that sum up to rest; nil:
// there are none.
func subset(rest []float64, of []*contribution) []*contribution {
	if zero64(rest) {
		return []*contribution{}
	}
	for i, x := range of {
		left := slices.Clone(rest)
		subtract(left, x.grad)
		if zero(x.grad) || slices.ContainsFunc(left, func(v float64) bool { return v < -tolerance }) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(of[i+1:]), func(y *contribution) bool { return y.who == x.who })
		if also := subset(left, others); also != nil {
			return append(also, x)
		}
	}
	return nil
}

// difference shows the first elements that differ.
func difference(rest []float64) string {
	var b strings.Builder
	shown := 0
	for i, v := range rest {
		if math.Abs(v) > tolerance {
			if shown++; shown > 4 {
				b.WriteString(" ...")
				break
			}
			fmt.Fprintf(&b, " [%d] %+g", i, v)
		}
	}
	return "left over:" + b.String()
}

// agree checks that in each step all workers saw the same value of a key: those of a job whose
// members do not change.
func (c *checks) agree(key string, list []*contribution) {
	seen := map[int]*contribution{}
	for _, x := range list {
		switch first := seen[x.step]; {
		case x.value == nil:
		case first == nil:
			seen[x.step] = x
		case !slices.Equal(first.value, x.value):
			c.fail("%s step %d: %s and %s saw different values", key, x.step, first.who, x.who)
		}
	}
}

// floatKey is the key of package countmodel whose values are no counts.
const floatKey = "float"

// examples checks that every example was used once an epoch. A step is acknowledged when its
// contributions to all keys counted; in maps a contribution to whether it did.
func (c *checks) examples(keys map[string][]*contribution, in map[*contribution]bool, examples, epochs int) (lost, doubled int) {
	type step struct {
		who  string
		step int
	}
	counted, grads := map[step]int{}, map[step][]float32{}
	for name, list := range keys {
		for _, x := range list {
			s := step{x.who, x.step}
			if in[x] || zero(x.grad) {
				// A gradient of zeros counts as well as not.
				counted[s]++
			}
			if name != floatKey {
				grads[s] = x.grad
			}
		}
	}
	used := make([]int, examples)
	for s, n := range counted {
		if n == len(keys) {
			for i, g := range grads[s] {
				used[i] += int(math.Round(float64(g)))
			}
		}
	}
	for i, n := range used {
		if n != epochs {
			c.fail("example %d counted %d times in %d epochs", i, n, epochs)
		}
		lost, doubled = lost+max(epochs-n, 0), doubled+max(n-epochs, 0)
	}
	return lost, doubled
}

// gap is the longest time without a closed round of any key from a moment on.
func (l *ledger) gaps(begin time.Time, faults []Fault) []time.Duration {
	var at []time.Time
	for _, list := range l.keys {
		for _, x := range list {
			if x.value != nil {
				at = append(at, x.at)
			}
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	gaps := make([]time.Duration, len(faults))
	for i, f := range faults {
		from, to := begin.Add(f.At), begin.Add(f.At+max(f.For, time.Second)+lease)
		for k := 1; k < len(at); k++ {
			if at[k].After(from) && at[k-1].Before(to) {
				gaps[i] = max(gaps[i], at[k].Sub(at[k-1]))
			}
		}
	}
	return gaps
}
