package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Keys planned without a job get the plans that the job's scheduler makes.
func TestPlanKeysIsTheSchedulersPlan(t *testing.T) {
	p := newPlanner(3)
	var keys []wire.Declare
	var want []*wire.KeyPlan
	for i, n := range resnet18() {
		keys = append(keys, wire.Declare{Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: n, Name: fmt.Sprint(i)})
		want = append(want, p.declare(&keys[i], "w", 1).(*wire.KeyPlan))
	}
	got, err := PlanKeys(3, keys)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("62 keys on 3 servers: want −, got +:\n%s", d)
	}
	if _, err := PlanKeys(0, keys); err == nil {
		t.Error("0 servers: got no error")
	}
	if _, err := PlanKeys(1, []wire.Declare{{Name: "empty", Form: wire.FormDense, Rule: wire.RuleOptimizer}}); err == nil || !strings.Contains(err.Error(), `"empty": has no values`) {
		t.Errorf("a key without values: got error %v, want one that names it", err)
	}
}
