package shard_test

import (
	"context"
	"fmt"

	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

// Two workers contribute to one round, the second one twice over a bad connection.
func Example() {
	pool := &shard.Pool{}
	s, err := shard.New(shard.Config{
		Name: "weight", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: 3, Size: 3, Shards: 1, Host: &shard.Host{Pool: pool},
	}, []float32{1, 1, 1})
	if err != nil {
		panic(err)
	}
	s.SetMembers(1, []shard.Member{{Node: 7, Rank: 0}, {Node: 9, Rank: 1}})
	sgd, _ := optim.New(optim.Config{Name: "sgd", LearningRate: 0.5})
	shard.SetOptimizer([]*shard.Shard{s}, sgd, shard.NoBound)

	push := func(node uint64, gradient ...float32) shard.Status {
		data := pool.Get(4 * len(gradient))
		copy(data.Float32s(len(gradient)), gradient)
		status, err := s.Push(shard.Contribution{Generation: 1, Node: node, Seq: 1, Round: 0, Weight: 1, Data: data})
		if err != nil {
			panic(err)
		}
		return status
	}
	fmt.Println(push(9, 1, 2, 3) == shard.Held)
	fmt.Println(push(9, 1, 2, 3) == shard.Repeated)
	fmt.Println(s.Laggards(shard.Want{Node: 9, Round: 1}))
	fmt.Println(push(7, 1, 0, 1) == shard.Held)

	v, wait, err := s.Pull(shard.Want{Node: 9, Round: 1})
	if wait != nil {
		v, err = wait.Await(context.Background())
	}
	if err != nil {
		panic(err)
	}
	defer v.Release()
	fmt.Println(v.Round(), v.Float32s())
	// Output:
	// true
	// true
	// [{7 0 0}]
	// true
	// 1 [0 0 -1]
}
