package schedulernode_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/schedulernode"
	"github.com/paragon-train/paragon/server"
)

// A scheduler in a program of one's own, with a server and two workers. It waits for all of them,
// gives each worker its rank, and returns when they have left.
func ExampleRun() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	env := func(role, port string) func(string) string {
		variables := map[string]string{
			"DMLC_ROLE": role, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": port, "DMLC_NODE_HOST": "127.0.0.1",
			"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1", "PARAGON_JOB": "example",
		}
		return func(name string) string { return variables[name] }
	}
	listens, ended := make(chan string, 1), make(chan error, 1)
	// The system chooses the port.
	go func() {
		ended <- schedulernode.Run(ctx, schedulernode.Config{Env: env("scheduler", "0"), Ready: func(addr string) { listens <- addr }, Logger: quiet})
	}()
	_, port, _ := net.SplitHostPort(<-listens)
	var others sync.WaitGroup
	others.Go(func() {
		if err := server.Run(ctx, server.Config{Env: env("server", port), Logger: quiet}); err != nil {
			fmt.Println(err)
		}
	})
	// sums is by rank.
	sums := make([]float32, 2)
	for range 2 {
		others.Go(func() {
			kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithEnv(env("worker", port)), kvstore.WithLogger(quiet))
			if err != nil {
				fmt.Println(err)
				return
			}
			defer kv.Close()
			sum := sums[kv.Rank() : kv.Rank()+1]
			if err := kv.Init(ctx, "x", []float32{0}); err != nil {
				fmt.Println(err)
				return
			}
			gradient := []float32{float32(1 + kv.Rank())}
			if err := kv.PushPull(ctx, "x", [][]float32{gradient}, [][]float32{sum}); err != nil {
				fmt.Println(err)
			}
		})
	}
	others.Wait()
	fmt.Println(sums, <-ended) // both have 1 + 2
	// Output: [3 3] <nil>
}
