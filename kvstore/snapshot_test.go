package kvstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/checkpoint/checkpointtest"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/optim"
)

// A snapshot is of the moment in which it was asked for, whatever is pushed while it is read and
// before it is written, and all of it is of one round. What is saved in a bucket is loaded from
// there.
func TestASnapshotIsOfOneMoment(t *testing.T) {
	const keys, rounds, at, size = 12, 9, 4, 5000
	_, uri := checkpointtest.New()
	file := checkpoint.Join(uri, "state.safetensors")
	name := func(i int) string { return "key" + string(rune('a'+i)) }
	each := func(f func(key string) error) error {
		var group errgroup.Group
		for i := range keys {
			group.Go(func() error { return f(name(i)) })
		}
		return group.Wait()
	}
	train := func(kv kvstore.Store, round func(r int) error) error {
		err := kv.SetOptimizer(t.Context(), optim.Config{Name: "adam", LearningRate: 0.1})
		for i := range keys {
			err = errors.Join(err, kv.Init(t.Context(), name(i), make([]float32, size)))
		}
		for r := 0; r < rounds && err == nil; r++ {
			if err = round(r); err == nil {
				err = each(func(key string) error {
					g := slices.Repeat([]float32{float32(r%3) - 1}, size)
					return kv.PushPull(t.Context(), key, [][]float32{g}, [][]float32{make([]float32, size)})
				})
			}
		}
		return err
	}
	var want []float32 // of all keys before round at
	var group errgroup.Group
	for rank, kv := range jobtest.New(t, jobtest.Config{Workers: 2, Servers: 2}).Stores(t, "dist_sync") {
		group.Go(func() error {
			var snapshot *kvstore.Snapshot
			err := train(kv, func(r int) (err error) {
				if rank != 0 || r != at {
					return nil
				}
				for i := range keys {
					out := make([]float32, size)
					if err := kv.Pull(t.Context(), name(i), out); err != nil {
						return err
					}
					want = append(want, out...)
				}
				snapshot, err = kv.Snapshot(t.Context())
				return err
			})
			if err == nil && rank == 0 {
				err = snapshot.Write(t.Context(), file)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var got []float32
	kv := local(t, "", 1)
	alone, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if err := alone.Load(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		out := make([]float32, size)
		if err := errors.Join(alone.Init(t.Context(), name(i), make([]float32, size)), alone.Pull(t.Context(), name(i), out)); err != nil {
			t.Fatal(err)
		}
		got = append(got, out...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the snapshot is not of round %d", at)
	}
	declared, err := kvstore.Declarations(file)
	if err != nil || len(declared) != keys {
		t.Errorf("declarations of the file: got %d and error %v, want %d", len(declared), err, keys)
	}
	if err := kv.Load(t.Context(), file); !errors.Is(err, kvstore.ErrUnknownKey) {
		t.Errorf("load by a store with another key: got error %v, want %v", err, kvstore.ErrUnknownKey)
	}
}

// A snapshot that cannot be read says why, and leaves the store as it was.
func TestASnapshotEndsWithItsContext(t *testing.T) {
	kv := local(t, "adam", 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	snapshot, err := kv.Snapshot(ctx)
	if err == nil {
		err = snapshot.Wait()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	must(kv.Push(t.Context(), "x", []float32{1, 2, 3}))
	must(kv.Save(t.Context(), filepath.Join(t.TempDir(), "x")))
	_, uri := checkpointtest.New()
	must(kv.Save(t.Context(), uri+"/x"))
	if err := kv.Save(t.Context(), "s3://bucket/x"); !errors.Is(err, kvstore.ErrUnsupported) || !strings.Contains(err.Error(), "checkpoint/bucket") {
		t.Errorf("save without a driver: got error %v, want %v that names the package with it", err, kvstore.ErrUnsupported)
	}
}
