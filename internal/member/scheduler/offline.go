package scheduler

import (
	"fmt"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// PlanKeys plans keys as the scheduler of a job with so many servers does when they are declared in
// this order: the same plans, without a job. It is how launch ctl plan shows them.
func PlanKeys(servers int, keys []wire.Declare) ([]*wire.KeyPlan, error) {
	if servers < 1 {
		return nil, fmt.Errorf("scheduler: plan keys: got %d servers, want at least 1", servers)
	}
	p := newPlanner(servers)
	plans := make([]*wire.KeyPlan, len(keys))
	for i := range keys {
		switch m := p.declare(&keys[i], "it", 1).(type) {
		case *wire.KeyPlan:
			plans[i] = m
		case *wire.Nack:
			return nil, fmt.Errorf("scheduler: plan keys: %s", m.Text)
		}
	}
	return plans, nil
}
