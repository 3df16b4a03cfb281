package kvstore

import "github.com/paragon-train/paragon/internal/store/wire"

// A shardStates reads and writes all that the servers hold of a key: its value and the slots of the
// optimizer.
type shardStates struct {
	cfg      *settings
	requests *requests
	rules    *roundRules
}

// mostSlots is the most slots that the servers may hold of a key.
func (s *shardStates) mostSlots(k *key) int {
	if k.rule == wire.RuleAverage {
		return 0
	}
	if o := s.rules.newOptimizer(); o != nil {
		return len(o.SlotNames())
	}
	return maxSlots
}
