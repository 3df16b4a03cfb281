package shardserver_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// One key pushed and pulled by all workers over TCP on this machine, up once and down once for each
// of them.
//
//	go test ./server -run xxx -bench PushPull
func BenchmarkPushPull(b *testing.B) {
	for _, size := range []struct{ workers, servers int }{{1, 1}, {2, 2}} {
		for _, floats := range []int{256, 1 << 18, 1 << 22} {
			b.Run(fmt.Sprintf("workers=%d/servers=%d/floats=%d", size.workers, size.servers, floats), func(b *testing.B) {
				stores := jobtest.New(b, jobtest.Config{TCP: true, Workers: size.workers, Servers: size.servers}).Stores(b, "dist_sync")
				each(stores, func(kv kvstore.Store) {
					if err := kv.Init(b.Context(), "x", make([]float32, floats)); err != nil {
						b.Error(err)
					}
				})
				b.SetBytes(2 * 4 * int64(floats) * int64(size.workers))
				b.ReportAllocs()
				b.ResetTimer()
				each(stores, func(kv kvstore.Store) {
					gradient, value := make([]float32, floats), make([]float32, floats)
					for range b.N {
						if err := kv.PushPull(b.Context(), "x", [][]float32{gradient}, [][]float32{value}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// each runs f for all workers at once.
func each(stores []kvstore.Store, f func(kv kvstore.Store)) {
	var wg sync.WaitGroup
	for _, kv := range stores {
		wg.Go(func() { f(kv) })
	}
	wg.Wait()
}

// resnet18 holds the sizes of ResNet18's parameters (1000 classes, without batch norm's running
// statistics), first layer first.
func resnet18() []int {
	sizes := []int{64 * 3 * 49, 64, 64}
	in := 64
	for stage, out := range []int{64, 128, 256, 512} {
		for block := range 2 {
			sizes = append(sizes, out*in*9, out, out, out*out*9, out, out)
			if stage > 0 && block == 0 {
				sizes = append(sizes, out*in, out, out)
			}
			in = out
		}
	}
	return append(sizes, 512*1000, 1000)
}

// One round of all of ResNet18's keys, all under way at once, over TCP on this machine.
//
//	go test ./server -run xxx -bench ResNet18
func BenchmarkResNet18(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d/servers=%d", n, n), func(b *testing.B) {
			stores := jobtest.New(b, jobtest.Config{TCP: true, Workers: n, Servers: n}).Stores(b, "dist_sync")
			sizes, bytes := resnet18(), 0
			each(stores, func(kv kvstore.Store) {
				for k, floats := range sizes {
					if err := kv.Init(b.Context(), fmt.Sprint(k), make([]float32, floats)); err != nil {
						b.Error(err)
					}
				}
			})
			for _, floats := range sizes {
				bytes += 4 * floats
			}
			b.SetBytes(int64(2 * bytes * n))
			b.ReportAllocs()
			b.ResetTimer()
			each(stores, func(kv kvstore.Store) {
				gradients, values := make([][]float32, len(sizes)), make([][]float32, len(sizes))
				for k, floats := range sizes {
					gradients[k], values[k] = make([]float32, floats), make([]float32, floats)
				}
				for range b.N {
					var keys sync.WaitGroup
					for k := range sizes {
						keys.Go(func() {
							if err := kv.PushPull(b.Context(), fmt.Sprint(k), gradients[k:k+1], values[k:k+1]); err != nil {
								b.Error(err)
							}
						})
					}
					keys.Wait()
				}
			})
		})
	}
}
