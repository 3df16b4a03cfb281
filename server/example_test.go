package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
	"github.com/paragon-train/paragon/schedulernode"
	"github.com/paragon-train/paragon/server"
)

// A job of two servers and one worker in one process, without launch. The worker's value is cut
// into a shard for each server, which apply the optimizer. Run returns when the worker has left.
func ExampleRun() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	port := "0"
	env := func(role string) func(string) string {
		variables := map[string]string{
			"DMLC_ROLE": role, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": port, "DMLC_NODE_HOST": "127.0.0.1",
			"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "2", "PARAGON_JOB": "example",
		}
		return func(name string) string { return variables[name] }
	}
	ended := make(chan error, 3)
	listens := make(chan string, 1)
	go func(env func(string) string) {
		ended <- schedulernode.Run(ctx, schedulernode.Config{Env: env, Ready: func(addr string) { listens <- addr }, Logger: quiet})
	}(env("scheduler"))
	_, port, _ = net.SplitHostPort(<-listens)
	for range 2 {
		go func(env func(string) string) { ended <- server.Run(ctx, server.Config{Env: env, Logger: quiet}) }(env("server"))
	}

	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithEnv(env("worker")), kvstore.WithLogger(quiet))
	if err != nil {
		fmt.Println(err)
		return
	}
	value := []float32{1, 2, 3, 4}
	err = errors.Join(
		kv.SetOptimizer(ctx, optim.Config{Name: "sgd", LearningRate: 0.5}),
		kv.Init(ctx, "weight", value),
		kv.PushPull(ctx, "weight", [][]float32{{2, 2, 2, 2}}, [][]float32{value}),
	)
	fmt.Println(value, err)
	fmt.Println(errors.Join(kv.Close(), <-ended, <-ended, <-ended))
	// Output:
	// [0 1 2 3] <nil>
	// <nil>
}
