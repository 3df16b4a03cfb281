package kvstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// Where the worker that makes the value is lost, the next one makes it. All have the same value,
// also where the first had told.
func TestABroadcastOutlivesWhoBeginsIt(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := jobtest.New(t, jobtest.Config{Workers: 3, Elastic: cluster.Elastic{Enabled: true}})
				stores := job.Stores(t, "dist_sync")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				broadcast := func(rank int, lost func()) (string, error) {
					return stores[rank].Broadcast(ctx, func() (string, error) {
						if lost != nil {
							lost()
						}
						return fmt.Sprint("of rank ", rank), nil
					})
				}
				silence := func() {
					job.Net.Refuse("worker0", "scheduler")
					job.Net.Cut("worker0", "scheduler")
				}
				want := "of rank 1"
				if told {
					want = "of rank 0"
					if got, err := broadcast(0, nil); err != nil || got != want {
						t.Fatalf("rank 0: got %q and error %v, want %q", got, err, want)
					}
					silence()
				} else {
					go broadcast(0, func() {
						silence()
						<-ctx.Done()
					})
				}
				got := make([]string, 3)
				errs := make([]error, 3)
				done := make(chan int)
				for rank := 2; rank > 0; rank-- {
					go func() {
						got[rank], errs[rank] = broadcast(rank, nil)
						done <- rank
					}()
					synctest.Wait()
				}
				for range 2 {
					if rank := <-done; errs[rank] != nil || got[rank] != want {
						t.Errorf("rank %d: got %q and error %v, want %q", rank, got[rank], errs[rank], want)
					}
				}
			})
		})
	}
}

func TestABroadcastSaysWhichValuesItCannotTake(t *testing.T) {
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	for value, want := range map[string]string{
		strings.Repeat("x", kvstore.MaxBroadcast+1): "larger values are keys",
		"\xff": "that are not UTF-8; encode them",
	} {
		if _, err := kv.Broadcast(t.Context(), func() (string, error) { return value, nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got error %v, want %q", len(value), err, want)
		}
	}
}
