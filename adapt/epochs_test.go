package adapt

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// However large the steps, and wherever the run is killed and goes on from a checkpoint, it has
// each of its epochs once, and ends with the last mark.
func TestRemainingEpochsAreExactlySoMany(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := Progress{Examples: 1 + random.IntN(500), InitialBatch: 1 + random.IntN(64)}
		epochs := 1 + random.IntN(12)
		var ended []int
		saved, savedEnded := p, 0
		for kills := 0; ; kills++ {
			killed := false
			for epoch := range p.RemainingEpochsUntil(epochs) {
				for !p.Done(epoch) && !killed {
					p.Add(1 + 20*random.Float64())
					if random.IntN(10) == 0 {
						saved, savedEnded = p, len(ended)
					}
					killed = kills < 5 && random.IntN(30) == 0
				}
				if killed {
					break
				}
				ended = append(ended, epoch)
				saved, savedEnded = p, len(ended)
			}
			if !killed {
				break
			}
			p, ended = saved, ended[:savedEnded]
			for len(ended) > 0 && !p.Done(ended[len(ended)-1]) {
				t.Fatalf("seed %d: epoch %d ended and goes on", seed, ended[len(ended)-1])
			}
			for e := len(ended); p.Done(e) && e < epochs; e++ { // the checkpoint is of a step that ended them
				ended = append(ended, e)
			}
		}
		want := make([]int, epochs)
		for i := range want {
			want[i] = i
		}
		if !slices.Equal(ended, want) || !p.Done(epochs-1) {
			t.Errorf("seed %d: got epochs %v, want %v", seed, ended, want)
		}
	}
	p := Progress{Examples: 10, InitialBatch: 2, Steps: 25}
	for range p.RemainingEpochsUntil(5) {
		t.Error("got an epoch after the last one")
	}
}
