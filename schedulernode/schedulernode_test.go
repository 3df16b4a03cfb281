package schedulernode_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/schedulernode"
	"github.com/paragon-train/paragon/server"
)

// env is the environment of a job of one worker and one server.
func env(set map[string]string) func(string) string {
	all := map[string]string{"DMLC_ROLE": "scheduler", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "0", "DMLC_NUM_WORKER": "1",
		"DMLC_NUM_SERVER": "1", "DMLC_NODE_HOST": "127.0.0.1", "PARAGON_JOB": "embedded"}
	for name, value := range set {
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

// A program that runs scheduler, server and worker in one process has a whole job.
func TestAJobWithinOneProcess(t *testing.T) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	addr, ended, served := make(chan string, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- schedulernode.Run(t.Context(), schedulernode.Config{Env: env(nil), Ready: func(a string) { addr <- a }, Logger: quiet})
	}()
	_, port, err := net.SplitHostPort(<-addr)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		served <- server.Run(t.Context(), server.Config{Env: env(map[string]string{"DMLC_ROLE": "server", "DMLC_PS_ROOT_PORT": port}), Logger: quiet})
	}()
	cfg, err := cluster.FromEnv(env(map[string]string{"DMLC_ROLE": "worker", "DMLC_PS_ROOT_PORT": port}))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := joining.Join(t.Context(), cfg, "dist_sync", kvstore.WithLogger(quiet))
	if err != nil {
		t.Fatal(err)
	}
	out := []float32{0}
	err = kv.Init(t.Context(), "x", []float32{1})
	if err == nil {
		err = kv.PushPull(t.Context(), "x", [][]float32{{7}}, [][]float32{out})
	}
	if err != nil || out[0] != 7 {
		t.Errorf("got %v and error %v, want 7", out, err)
	}
	if err := errors.Join(kv.Close(), <-served, <-ended); err != nil {
		t.Errorf("the job ended with %v", err)
	}
}

func TestAnEnvironmentThatCannotBeIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"DMLC_NUM_WORKER": "none"}, "DMLC_NUM_WORKER"},
		{map[string]string{"DMLC_PS_ROOT_URI": ""}, "DMLC_PS_ROOT_URI"},
		{map[string]string{"PARAGON_LOG": "loud"}, "PARAGON_LOG"},
		{map[string]string{"PARAGON_LOG_FORMAT": "xml"}, `PARAGON_LOG_FORMAT="xml" is unknown; want text or json`},
	} {
		if err := schedulernode.Run(ctx, schedulernode.Config{Env: env(c.set)}); err == nil || !strings.HasPrefix(err.Error(), "schedulernode: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want one that names %s", c.set, err, c.want)
		}
	}
	if err := schedulernode.Run(ctx, schedulernode.Config{Env: env(nil), Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: got error %v, want %v", err, context.Canceled)
	}
}
