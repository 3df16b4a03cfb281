package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// A server's part of a round of 11 Mi values in shards of 1 Mi: rounds whose norms are measured and
// plain ones take turns. ns/op is of a plain one; the least of each kind is compared, because a
// busy machine adds to most.
//
//	go test ./internal/store/shard -run xxx -bench Norms -benchtime 20x
func BenchmarkNorms(b *testing.B) {
	const n, shards = 1 << 20, 11
	for _, c := range []struct {
		opt     string
		workers int
		micro   uint32
	}{{"sgd", 1, 0}, {"sgd", 1, 2}, {"sgd", 2, 0}, {"sgd", 4, 0}, {"adam", 1, 0}, {"adam", 2, 0}} {
		b.Run(fmt.Sprintf("optimizer=%s/workers=%d/micro=%d", c.opt, c.workers, c.micro), func(b *testing.B) {
			opt, err := optim.New(optim.Config{Name: c.opt})
			if err != nil {
				b.Fatal(err)
			}
			all := make([]*Shard, shards)
			pool := &Pool{}
			for i := range all {
				if all[i], err = New(Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: n, Size: n, Shards: 1, Host: &Host{Pool: pool}}, nil); err != nil {
					b.Fatal(err)
				}
				setWorkers(b, all[i], 1, c.workers)
				setOptimizer(b, all[i], opt.Config())
			}
			round := uint64(0)
			grad := make([]float32, n)
			for i := range grad {
				grad[i] = float32(i%7) - 3
			}
			rounds := func(step wire.Step) (took time.Duration) { // as many as differencePeriod
				for range differencePeriod {
					for _, s := range all {
						var pushes []Contribution
						for rank := range c.workers {
							x := contribution(s, rank, round, grad...)
							x.Step = step
							pushes = append(pushes, x)
						}
						began := time.Now()
						for _, x := range pushes {
							if _, err := s.Push(x); err != nil {
								b.Fatal(err)
							}
						}
						took += time.Since(began)
					}
					round++
				}
				return took / differencePeriod
			}
			rounds(wire.Step{})
			var plain, measured []time.Duration
			for b.Loop() {
				plain = append(plain, rounds(wire.Step{}))
				measured = append(measured, rounds(wire.Step{Measure: true, Micro: c.micro}))
			}
			b.ReportMetric(float64(slices.Min(plain)), "ns/op")
			b.ReportMetric(float64(slices.Min(measured)-slices.Min(plain)), "norms-ns/op")
		})
	}
}
