package server_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/kvstore/kvstoretest"
)

// One key pushed and pulled by all workers over TCP on this machine, up once and down once for each of them.
//
//	go test ./server -run xxx -bench PushPull
func BenchmarkPushPull(b *testing.B) {
	for _, size := range []struct{ workers, servers int }{{1, 1}, {2, 2}} {
		for _, floats := range []int{256, 1 << 18, 1 << 22} {
			b.Run(fmt.Sprintf("workers=%d/servers=%d/floats=%d", size.workers, size.servers, floats), func(b *testing.B) {
				j := newJobOver(b, nil, kvstoretest.Config{Type: "dist_sync", Workers: size.workers, Servers: size.servers})
				each(j, func(rank int) {
					if err := j.stores[rank].Init(b.Context(), "x", make([]float32, floats)); err != nil {
						b.Error(err)
					}
				})
				b.SetBytes(2 * 4 * int64(floats) * int64(size.workers))
				b.ReportAllocs()
				b.ResetTimer()
				each(j, func(rank int) {
					gradient, value := make([]float32, floats), make([]float32, floats)
					for range b.N {
						if err := j.stores[rank].PushPull(b.Context(), "x", [][]float32{gradient}, [][]float32{value}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// each runs f for all ranks at once.
func each(j *job, f func(rank int)) {
	var wg sync.WaitGroup
	for rank := range j.stores {
		wg.Go(func() { f(rank) })
	}
	wg.Wait()
}
