package kvstore_test

import (
	"context"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
)

// openAlone opens a store within this process: local, device, or a dist store without a job.
func openAlone(t testing.TB, c kvstoretest.Config) []kvstore.Store {
	t.Helper()
	opts := append([]kvstore.Option{kvstore.WithEnv(func(string) string { return "" })}, c.Options...)
	kv, err := kvstore.Create(context.Background(), c.Type, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
	})
	return []kvstore.Store{kv}
}

func TestStoresWithinTheProcess(t *testing.T) {
	kvstoretest.Run(t, kvstoretest.Harness{
		Open:    openAlone,
		Workers: []int{1},
		Types:   []string{"local", "dist_async"},
		Edge:    smallEdge(),
	})
	kvstoretest.Run(t, kvstoretest.Harness{ // these differ in what they compress
		Open:    openAlone,
		Workers: []int{1},
		Types:   []string{"device", "dist_sync"},
		Brief:   brief(),
		Edge:    smallEdge(),
	})
}
