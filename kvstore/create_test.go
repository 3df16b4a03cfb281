package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

func nothing(string) string { return "" }

func TestCreateNamesTheTypesItKnows(t *testing.T) {
	for _, name := range []string{"", "dist sync", "distasync", "nccl"} {
		_, err := kvstore.Create(context.Background(), name, kvstore.WithEnv(nothing))
		for _, want := range []string{"local", "device", "dist_sync", "dist_device_sync", "dist_async"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("create %q: got error %v, want one that names %s", name, err, want)
			}
		}
	}
}

func TestCreateRefusesAnUnknownPath(t *testing.T) {
	t.Setenv("PARAGON_CPU", "sse9")
	_, err := kvstore.Create(context.Background(), "local", kvstore.WithEnv(nothing))
	if err == nil || !strings.Contains(err.Error(), `PARAGON_CPU="sse9": no such path; want portable, avx2`) {
		t.Errorf("got error %v, want one that names the variable, its value and what is wanted", err)
	}
}

func TestCreateWithoutAJobRunsAloneAndSaysSo(t *testing.T) {
	for name, kind := range map[string]string{"dist": "dist_sync", "dist_sync": "dist_sync", "dist_device_sync": "dist_device_sync", "dist_async": "dist_async"} {
		var log bytes.Buffer
		kv, err := kvstore.Create(context.Background(), name, kvstore.WithEnv(nothing), kvstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		if kv.Type() != kind || kv.Rank() != 0 || kv.NumWorkers() != 1 || kv.Generation() != 1 {
			t.Errorf("create %q: got type %s, rank %d of %d, generation %d", name, kv.Type(), kv.Rank(), kv.NumWorkers(), kv.Generation())
		}
		if !strings.Contains(log.String(), "one worker within this process") {
			t.Errorf("create %q: got the log %q", name, &log)
		}
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateRefusesOptionsThatMeanNothing(t *testing.T) {
	_, err := kvstore.Create(context.Background(), "dist_sync", kvstore.WithEnv(nothing), kvstore.WithStaleness(1))
	if !errors.Is(err, kvstore.ErrUnsupported) {
		t.Errorf("staleness in dist_sync: got error %v, want %v", err, kvstore.ErrUnsupported)
	}
	_, err = kvstore.Create(context.Background(), "dist_async", kvstore.WithEnv(nothing), kvstore.WithLocalSteps(4))
	if !errors.Is(err, kvstore.ErrUnsupported) {
		t.Errorf("local steps in dist_async: got error %v, want %v", err, kvstore.ErrUnsupported)
	}
	_, err = kvstore.Create(context.Background(), "local", kvstore.WithLocalSteps(0))
	if err == nil || !strings.Contains(err.Error(), "got 0, want at least 1") {
		t.Errorf("no local steps: got error %v, want one that says 0 and 1", err)
	}
	_, err = joining.Join(context.Background(), cluster.Config{}, "local")
	if !errors.Is(err, kvstore.ErrUnsupported) {
		t.Errorf("local with a job: got error %v, want %v", err, kvstore.ErrUnsupported)
	}
}

func ExampleCreate() {
	ctx := context.Background()
	kv, err := kvstore.Create(ctx, "local")
	if err != nil {
		panic(err)
	}
	defer kv.Close()
	weight, gradient := []float32{1, 2}, []float32{0.5, -0.5}
	must(kv.Init(ctx, "weight", weight))
	must(kv.PushPull(ctx, "weight", [][]float32{gradient, gradient}, [][]float32{weight})) // two devices
	fmt.Println(weight)
	// Output: [1 -1]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A worker that is done and leaves does not change the others' ranks: the generation stays.
func TestLeavingWorkerIsStillCounted(t *testing.T) {
	job := jobtest.New(t, jobtest.Config{Workers: 2})
	nodes := make([]*cluster.Node, 2)
	var group errgroup.Group
	for rank := range nodes {
		group.Go(func() (err error) {
			nodes[rank], err = cluster.Join(t.Context(), job.WorkerConfig(rank))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	stays, err := kvstore.Create(t.Context(), "dist_sync", kvstore.WithMember(nodes[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Close()
	before := len(nodes[1].Membership().Nodes)
	if err := nodes[0].Leave(t.Context(), true, ""); err != nil {
		t.Fatal(err)
	}
	for {
		changed := nodes[1].Changed()
		if len(nodes[1].Membership().Nodes) < before {
			break
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("rank 1 never heard that rank 0 left")
		}
	}
	if got := stays.NumWorkers(); got != 2 {
		t.Errorf("workers after rank 0 left: got %d, want 2", got)
	}
}

// A store that cannot begin leaves nothing running: the bubble ends only without goroutines.
func TestAStoreThatCannotBeginLeavesNothingRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := jobtest.New(t, jobtest.Config{})
		job.Net.Drop("worker0", "server0")
		_, err := joining.Join(t.Context(), job.WorkerConfig(0), "dist_sync", kvstore.WithTimeout(3*time.Second))
		if !errors.Is(err, kvstore.ErrUnavailable) {
			t.Errorf("got error %v, want %v", err, kvstore.ErrUnavailable)
		}
	})
}

// One variable says how much is logged; those of other systems that do nothing here are named once,
// with what does.
func TestTheEnvironmentSaysHowMuchIsLogged(t *testing.T) {
	var b bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	defer slog.SetDefault(was)
	for _, c := range []struct {
		kind, env string
		want, not []string
	}{
		{"dist_sync", "", []string{"a job of one worker"}, []string{"store created", "does nothing"}},
		{"dist_sync", "PARAGON_LOG=debug", []string{"store created", "key placed"}, nil},
		{"dist_async", "PS_VERBOSE=2", []string{"store created"}, nil},
		{"dist_sync", "PARAGON_LOG=warn MXNET_KVSTORE_BIGARRAY_BOUND=1000", []string{"MXNET_KVSTORE_BIGARRAY_BOUND=1000 has no effect in Paragon"}, []string{"a job of one worker"}},
		{"local", "PARAGON_LOG=error PS_RESEND=1", nil, []string{"does nothing", "store created"}},
	} {
		b.Reset()
		kv, err := kvstore.Create(t.Context(), c.kind, kvstore.WithEnv(func(name string) string {
			for _, x := range strings.Fields(c.env) {
				if n, value, _ := strings.Cut(x, "="); n == name {
					return value
				}
			}
			return ""
		}))
		must(err)
		must(kv.Init(t.Context(), "w", []float32{1}))
		must(kv.Close())
		for _, want := range c.want {
			if strings.Count(b.String(), want) != 1 {
				t.Errorf("%s with %q: got the log\n%s\nwant %q once", c.kind, c.env, &b, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s with %q: got the log\n%s\nwithout %q", c.kind, c.env, &b, not)
			}
		}
	}
	for name, value := range map[string]string{"PARAGON_LOG": "loud", "PARAGON_LOG_FORMAT": "xml"} {
		_, err := kvstore.Create(t.Context(), "local", kvstore.WithEnv(func(asked string) string { return map[string]string{name: value}[asked] }))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s=%q", name, value)) {
			t.Errorf("%s=%s: got error %v", name, value, err)
		}
	}
}
