package allocate

import (
	"fmt"
	"testing"
	"time"

	"github.com/paragon-train/paragon/adapt"
)

// BenchmarkDivide is one decision for the cluster of the Pollux paper, 16 nodes with 4 slots, and
// 160 jobs. asked=anew computes every goodput that is asked for, as after new measurements of all
// jobs; asked=before has them from the last time.
//
//	go test ./adapt/allocate -run '^$' -bench Divide
func BenchmarkDivide(b *testing.B) {
	var nodes []Node
	for i := range 16 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("node%02d", i), Slots: 4})
	}
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("jobs=160/asked=%s", map[bool]string{false: "anew", true: "before"}[cached]), func(b *testing.B) {
			jobs := make([]Job, 160)
			for i := range jobs {
				g := adapt.Goodput{
					Model:        adapt.AllReduce{AlphaCompute: 0.02, BetaCompute: 0.001 * float64(1+i%7), AlphaNodes: 0.1, BetaNodes: 0.002, AlphaReplicas: 0.03, BetaReplicas: 0.001, Gamma: 1.5},
					Noise:        adapt.Noise{Sqr: 1, Var: float64(1 + i%11)},
					InitialBatch: 128,
				}
				limits := adapt.Limits{MaxBatch: 4096, MinLocal: 32, MaxLocal: 1024, Accumulation: true}
				known := map[[2]int]float64{}
				jobs[i] = Job{ID: fmt.Sprintf("job-%03d", i), Age: time.Duration(i) * time.Minute, ChangeCost: 2 * time.Second, Remaining: 1e6 * float64(1+i%13), Max: 64,
					Goodput: func(nodes, replicas int) float64 {
						key := [2]int{min(nodes, 2), replicas}
						if v, ok := known[key]; ok && cached {
							return v
						}
						c, err := g.Best(nodes, replicas, limits)
						if err != nil {
							b.Fatal(err)
						}
						known[key] = c.Goodput
						return c.Goodput
					}}
			}
			decisions, err := Divide(Config{}, nodes, jobs)
			if err != nil {
				b.Fatal(err)
			}
			jobs = after(jobs, decisions)
			for i := range jobs { // work has been done: places change
				jobs[i].Remaining *= 1 / float64(1+i%5)
			}
			for b.Loop() {
				if _, err := Divide(Config{}, nodes, jobs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
