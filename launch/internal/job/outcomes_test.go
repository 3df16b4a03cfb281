package job

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/outcomes"
)

var (
	playOutcome    = flag.Int64("outcome", -1, "play this seed of the outcomes, and print all that happens")
	outcomeLatency = flag.Duration("outcome-latency", 0, "how long each message between launcher and scheduler takes in it")
	recordOutcomes = flag.Uint64("record-outcomes", 0, "play so many seeds, and write their outcomes into -outcomes")
	outcomesFolder = flag.String("outcomes", "testdata/outcomes", "folder of the recorded outcomes")
	outcomesBefore = flag.String("outcomes-before", "", "file with the texts of more recorded outcomes, as -outcome-texts makes them")
	recordChanged  = flag.Bool("record-changed", false, "write the recorded texts of all seeds that differ, as -outcomes-before has them, into -outcomes")
	outcomeTexts   = flag.Uint64("outcome-texts", 300, "of how many seeds the record has texts, too")
)

// Whatever users, hosts and processes do, the same processes run at each rest as before, and the
// job ends in the same way. Some hundred seeds are played, or with PARAGON_TEST_SLOW all that are
// recorded.
func TestOutcomesAreThoseRecorded(t *testing.T) {
	if *recordOutcomes > 0 {
		if err := outcomes.WriteRecord(*outcomesFolder, *recordOutcomes, *outcomeTexts, presentCores{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	record, err := outcomes.ReadRecord(*outcomesFolder, *outcomesBefore)
	if err != nil {
		t.Fatal(err)
	}
	if *playOutcome >= 0 {
		seed := uint64(*playOutcome)
		o := outcomes.Trace(outcomes.NewPlan(seed), *outcomeLatency, presentCores{})
		t.Logf("%s\n\n%s", strings.Join(o.Trace, "\n"), record.SideBySide(seed, presentCores{}))
		return
	}
	seeds, slow := uint64(300), os.Getenv("PARAGON_TEST_SLOW") != ""
	if slow {
		seeds = record.Seeds()
	}
	c := record.Compare(0, seeds, presentCores{}, intended)
	if *recordChanged {
		if err := record.WriteChanged(*outcomesFolder, c.Changed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d seeds; differences that are intended: %v", c.Seeds, c.Explained)
	for _, x := range intended {
		if slow && c.Explained[x.Name] == 0 {
			t.Errorf("no seed differs for %q: %s", x.Name, x.Reason)
		}
	}
	if len(c.Differing) > 0 {
		first := c.Differing[0]
		for _, seed := range c.Differing { // one that can be shown
			if record.Rests(seed) != nil {
				first = seed
				break
			}
		}
		t.Errorf("%d of %d seeds differ: %v\n%s\nreplay: go test ./launch/internal/job -run Outcomes -v -outcome %d",
			len(c.Differing), c.Seeds, c.Differing[:min(len(c.Differing), 20)], record.SideBySide(first, presentCores{}), first)
	}
}

// A seed leads to the same outcome each time, step by step: whatever differs is a difference of the
// cores.
func TestOutcomesRepeat(t *testing.T) {
	for seed := uint64(0); seed < 40; seed++ {
		a, b := outcomes.Trace(outcomes.NewPlan(seed), 0, presentCores{}), outcomes.Trace(outcomes.NewPlan(seed), 0, presentCores{})
		if i := firstDifference(a.Trace, b.Trace); i >= 0 {
			t.Fatalf("seed %d differs the second time, at line %d:\n%s", seed, i, strings.Join(b.Trace[max(0, i-5):min(i+3, len(b.Trace))], "\n"))
		}
	}
}

// firstDifference is the first index at which two lists differ; -1: none.
func firstDifference(a, b []string) int {
	if slices.Equal(a, b) {
		return -1
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}
