package allocate_test

import (
	"fmt"
	"log"
	"time"

	"github.com/paragon-train/paragon/adapt"
	"github.com/paragon-train/paragon/adapt/allocate"
)

func ExampleDivide() {
	// What a job measured of itself: how long steps take, and how noisy its gradient is.
	goodput := adapt.Goodput{
		Model:        adapt.AllReduce{AlphaCompute: 0.02, BetaCompute: 0.001, AlphaNodes: 0.2, BetaNodes: 0.01, AlphaReplicas: 0.01, BetaReplicas: 0.001, Gamma: 1},
		Noise:        adapt.Noise{Sqr: 1, Var: 4},
		InitialBatch: 64,
	}
	limits := adapt.Limits{MaxBatch: 512, MaxLocal: 128, Accumulation: true}
	of := func(nodes, replicas int) float64 {
		c, err := goodput.Best(nodes, replicas, limits)
		if err != nil {
			return 0 // no batch is possible with so many replicas
		}
		return c.Goodput
	}

	nodes := []allocate.Node{{Name: "host1", Slots: 4}, {Name: "host2", Slots: 4}}
	jobs := []allocate.Job{
		{ID: "long", Goodput: of, Remaining: 1e7, Current: allocate.Allocation{"host1": 4}, Age: time.Hour, ChangeCost: 2 * time.Second},
		{ID: "short", Goodput: of, Remaining: 1e5, Current: allocate.Allocation{"host2": 1}, Age: time.Minute, ChangeCost: 2 * time.Second},
		{ID: "new"},
	}
	decisions, err := allocate.Divide(allocate.Config{}, nodes, jobs)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range decisions {
		fmt.Println(d.ID, d.Reason)
	}
	// Output:
	// long shrinks from 4 to 2 replicas on host1: 0.66 times the goodput, and the slots are worth more to other jobs
	// short grows from 1 to 4 replicas on host2: 2.25 times the goodput
	// new starts 2 replicas on host1: it has no profile yet
}
