package kvstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/kvstore"
)

// resnet18 returns the sizes of ResNet18's 62 arrays with 1000 classes, first layer first:
// 11,689,512 values.
func resnet18() []int {
	sizes := []int{64 * 3 * 49, 64, 64}
	in := 64
	for stage, out := range []int{64, 128, 256, 512} {
		for block := range 2 {
			sizes = append(sizes, out*in*9, out, out, out*out*9, out, out)
			if stage > 0 && block == 0 {
				sizes = append(sizes, out*in, out, out) // the shortcut
			}
			in = out
		}
	}
	return append(sizes, 1000*512, 1000)
}

// One round of ResNet18: every worker pushes 44.7 MB and pulls as many, all arrays under way
// together, over TCP in one process. MB/s counts both directions of all workers.
//
//	go test ./kvstore -run xxx -bench ResNet18 -benchtime 3s
func BenchmarkResNet18(b *testing.B) {
	for _, job := range []struct{ workers, servers int }{{1, 1}, {2, 2}} {
		for _, compression := range []string{"none", "fp16", "2bit"} {
			b.Run(fmt.Sprintf("workers=%d/servers=%d/compression=%s", job.workers, job.servers, compression), func(b *testing.B) {
				stores := jobtest.New(b, jobtest.Config{TCP: true, Workers: job.workers, Servers: job.servers}).Stores(b, "dist_sync")
				benchmarkRounds(b, stores, resnet18(), kvstore.Compression{Type: compression})
			})
		}
	}
}

// One key of one size, one call at a time: latency and its allocations.
//
//	go test ./kvstore -run xxx -bench PushPull
func BenchmarkPushPull(b *testing.B) {
	for _, floats := range []int{256, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("workers=1/servers=1/floats=%d", floats), func(b *testing.B) {
			stores := jobtest.New(b, jobtest.Config{TCP: true}).Stores(b, "dist_sync")
			benchmarkRounds(b, stores, []int{floats}, kvstore.Compression{})
		})
		b.Run(fmt.Sprintf("local/floats=%d", floats), func(b *testing.B) {
			kv, err := kvstore.Create(b.Context(), "local")
			if err != nil {
				b.Fatal(err)
			}
			defer kv.Close()
			benchmarkRounds(b, []kvstore.Store{kv}, []int{floats}, kvstore.Compression{})
		})
	}
}

// benchmarkRounds times rounds in which every worker pushes and pulls keys of these sizes, each key
// on a goroutine of its own.
func benchmarkRounds(b *testing.B, stores []kvstore.Store, sizes []int, c kvstore.Compression) {
	ctx := context.Background()
	total := 0
	for _, n := range sizes {
		total += n
	}
	var begin []chan struct{}
	var round, ending sync.WaitGroup
	for _, kv := range stores {
		if err := kv.SetCompression(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
	for i, n := range sizes {
		key := fmt.Sprint("array", i)
		var init sync.WaitGroup
		for _, kv := range stores {
			init.Go(func() {
				if err := kv.Init(ctx, key, make([]float32, n)); err != nil {
					b.Error(err)
				}
			})
		}
		init.Wait()
		for _, kv := range stores {
			gradient, value := make([]float32, n), make([]float32, n)
			for j := range gradient {
				gradient[j] = float32(j%7) - 3
			}
			start := make(chan struct{})
			begin = append(begin, start)
			ending.Go(func() {
				grads, outs := [][]float32{gradient}, [][]float32{value}
				for range start {
					if err := kv.PushPull(ctx, key, grads, outs); err != nil {
						b.Error(err)
					}
					round.Done()
				}
			})
		}
	}
	once := func() {
		round.Add(len(begin))
		for _, start := range begin {
			start <- struct{}{}
		}
		round.Wait()
	}
	for range 3 {
		once()
	}
	b.SetBytes(2 * 4 * int64(total) * int64(len(stores)))
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
	b.StopTimer()
	for _, start := range begin {
		close(start)
	}
	ending.Wait()
}
