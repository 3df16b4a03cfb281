package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/kvstore"
)

// hostSumsVariable makes a process of a job run sumUntilLost.
const hostSumsVariable = "PARAGON_TEST_HOST_SUMS"

// sumUntilLost pushes 2^rank to several keys. Rank 1 is killed in the middle of a round, as by kill
// -9. The others go on until the rounds are without it for a while: they must see either all three
// contributions or the two.
func sumUntilLost(ctx context.Context, kv kvstore.Store) error {
	const keys, size, all, two = 6, 20_000, 7, 5
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("key", i)
		if err := kv.Init(ctx, names[i], make([]float32, size)); err != nil {
			return err
		}
	}
	own := make([]float32, size)
	for i := range own {
		own[i] = float32(int(1) << kv.Rank())
	}
	without := 0
	for round := 0; without < 10; round++ {
		if round == 20 && kv.Rank() == 1 {
			p, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			go p.Kill()
		}
		var trips sync.WaitGroup
		errs, lost := make([]error, keys), make([]bool, keys)
		for i := range names {
			trips.Go(func() {
				out := make([]float32, size)
				if errs[i] = kv.PushPull(ctx, names[i], [][]float32{own}, [][]float32{out}); errs[i] != nil {
					return
				}
				for _, v := range out {
					if v != out[0] || v != all && (v != two || round < 20) {
						errs[i] = fmt.Errorf("key %d round %d: got %v and %v", i, round, out[0], v)
						return
					}
				}
				lost[i] = out[0] == two
			})
		}
		trips.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, l := range lost {
			if l {
				without++
				break
			}
		}
	}
	if sent, _ := kvstore.HostSumsOf(kv); sent == 0 {
		return errors.New("this worker has made no sum of its host's gradients")
	}
	return nil
}

// The workers of a host add up in real processes, through shared memory. One of them, which leads
// some shards, is killed while it does: the others go on.
func TestAKilledWorkerOfAHostIsDoneWithout(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	err := processJob{workers: 3, servers: 1, lost: "worker 1",
		env: []string{hostSumsVariable + "=1", "PARAGON_HOST_SUMS=on", "PARAGON_ELASTIC=1", "PARAGON_HEARTBEAT=200ms", "PARAGON_LEASE=3s"}}.run(t)
	if err != nil {
		t.Error(err)
	}
}
