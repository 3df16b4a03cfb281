package simulate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// The checks find what they are there for: each case breaks one promise, once.
func TestABrokenPromiseIsFound(t *testing.T) {
	scaled := func(f float32) func(context.Context, *contribution) []float32 {
		return func(_ context.Context, c *contribution) []float32 {
			grad := slices.Clone(c.grad)
			for i := range grad {
				grad[i] *= f
			}
			return grad
		}
	}
	// quiet are the reports of jobs without faults.
	quiet := map[Program]Report{}
	for _, test := range []struct {
		name    string
		program Program
		alter   func(ctx context.Context, c *contribution) []float32
		want    string
	}{
		{"a contribution is lost", Sums, scaled(0), "the value is not the one before plus"},
		{"a contribution counts twice", Sums, scaled(2), "the value is not the one before plus"},
		{"half of a contribution counts", Sums, func(_ context.Context, c *contribution) []float32 {
			grad := slices.Clone(c.grad)
			clear(grad[len(grad)/2:])
			return grad
		}, "the value is not the one before plus"},
		{"a step's examples are lost", Counts, scaled(0), "the value is not the one before plus"},
		{"a step's examples are lost by a loop", Loop, scaled(0), "the value is not the one before plus"},
		{"a wait has no end", Sums, func(ctx context.Context, c *contribution) []float32 {
			<-ctx.Done()
			return c.grad
		}, "still there: "},
		{"a run with a fault ends elsewhere", Floats, scaled(1.001), "differs from that of the run without faults"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := Plan{Seed: 1, Workers: 3, Servers: 2, Program: test.program, Keys: 3, Steps: 12, Examples: 50, Epochs: 2, Batch: 3, Jitter: 1e6}
			run := func(alter bool) (r Report) {
				synctest.Test(t, func(t *testing.T) {
					j := newJob(plan)
					j.alter = func(ctx context.Context, key string, c *contribution) []float32 {
						if alter && c.who == "worker1" && c.step == 5 && (key == "key1" || key == "count1") {
							return test.alter(ctx, c)
						}
						return c.grad
					}
					r = j.run()
				})
				return r
			}
			before, ok := quiet[test.program]
			if !ok {
				before = run(false)
				quiet[test.program] = before
			}
			if len(before.Wrong) > 0 || !before.Finished || before.Rounds == 0 {
				t.Fatalf("a job without faults: finished %v, %d rounds: %q", before.Finished, before.Rounds, before.Wrong)
			}
			r := run(true)
			r.Compare(&before)
			if len(r.Wrong) == 0 || !slices.ContainsFunc(r.Wrong, func(w string) bool { return strings.Contains(w, test.want) }) {
				t.Errorf("got %q, want a line with %q", r.Wrong, test.want)
			}
		})
	}
}

func contributions(of ...[]float32) (list []*contribution) {
	for i, grad := range of {
		list = append(list, &contribution{who: string(rune('a' + i)), grad: grad, held: true})
	}
	return list
}

// What became of contributions whose workers died follows from the values that others saw.
func TestContributionsOfTheDeadAreFoundOut(t *testing.T) {
	list := contributions([]float32{1, 2}, []float32{10, 30}, []float32{100, 500})
	list[0].value = []float32{11, 32} // b's is in, c's is not
	c := &checks{}
	in := c.sums("x", []float32{0, 0}, list, func(x *contribution) bool { return x == list[2] })
	if len(c.wrong) > 0 || !in[list[0]] || !in[list[1]] || in[list[2]] {
		t.Errorf("got %v, %q, want the first two and nothing wrong", in, c.wrong)
	}
	c = &checks{}
	c.sums("x", []float32{0, 0}, list, func(x *contribution) bool { return false })
	if len(c.wrong) != 1 || !strings.Contains(c.wrong[0], "c step 0 was acknowledged and is in no value") {
		t.Errorf("got %q, want c's acknowledged push missed", c.wrong)
	}
	list[0].value = []float32{11, 2} // half of b's
	c = &checks{}
	if c.sums("x", []float32{0, 0}, list, func(x *contribution) bool { return true }); len(c.wrong) != 1 {
		t.Errorf("got %q, want half a contribution found", c.wrong)
	}
}

// A step that reached only some keys is not acknowledged; its examples are to be used again.
func TestExamplesCountOnceInAcknowledgedSteps(t *testing.T) {
	keys := map[string][]*contribution{}
	in := map[*contribution]bool{}
	push := func(who string, step int, grad []float32, reached ...bool) {
		for k, yes := range reached {
			x := &contribution{who: who, step: step, grad: grad}
			keys[string(rune('x'+k))] = append(keys[string(rune('x'+k))], x)
			in[x] = yes
		}
	}
	push("a", 0, []float32{1, 0, 0}, true, true)
	push("b", 0, []float32{0, 1, 0}, true, false)
	push("a", 1, []float32{0, 1, 0}, true, true)
	c := &checks{}
	lost, doubled := c.examples(keys, in, 3, 1)
	if lost != 1 || doubled != 0 || len(c.wrong) != 1 || !strings.Contains(c.wrong[0], "example 2 counted 0 times") {
		t.Errorf("got lost %d, doubled %d, %q, want example 2 lost", lost, doubled, c.wrong)
	}
	push("a", 2, []float32{1, 0, 1}, true, true)
	c = &checks{}
	if lost, doubled = c.examples(keys, in, 3, 1); lost != 0 || doubled != 1 {
		t.Errorf("got lost %d, doubled %d, want example 0 doubled", lost, doubled)
	}
}

// The same seed makes the same plan; other seeds make all kinds of faults.
func TestPlansFollowFromTheirSeeds(t *testing.T) {
	all := Config{Elastic: true, Backups: 1, Journal: true}
	seen := map[Kind]bool{}
	for seed := range uint64(300) {
		plan := NewPlan(seed, all)
		if again := NewPlan(seed, all); plan.String() != again.String() {
			t.Fatalf("seed %d: got\n%vand then\n%v", seed, &plan, &again)
		}
		for _, f := range plan.Faults {
			seen[f.Kind] = true
		}
		if p := NewPlan(seed, Config{Only: []Kind{Cut}}); p.Fatal() || slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind != Cut }) {
			t.Errorf("seed %d: want cuts alone, which no job ends for; got %v", seed, &p)
		}
	}
	for _, k := range Kinds() {
		if !seen[k] {
			t.Errorf("no plan of 300 has the fault %v", k)
		}
	}
}
