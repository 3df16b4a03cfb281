package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/cluster"
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
	_, err = kvstore.Create(context.Background(), "local", kvstore.WithConfig(cluster.Config{}))
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
