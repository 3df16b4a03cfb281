package kvstore

import (
	"testing"

	"github.com/paragon-train/paragon/internal/member/rollcall"
)

// The batch of all workers is what their shares have in the step, counted from the first step of
// the division: 11 examples are shares of 4, 4 and 3.
func TestTheGlobalBatchIsThatOfAllShares(t *testing.T) {
	s := &ElasticSampler{cfg: SamplerConfig{Batch: 3}, roll: &rollcall.Roll{}, workers: 3, whole: 11, from: 5}
	for i, want := range []int{9, 2, 0} {
		s.step = uint64(5 + i)
		if got := s.globalBatch(); got != want {
			t.Errorf("step %d: got %d examples, want %d", s.step, got, want)
		}
	}
}
