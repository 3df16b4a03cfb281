package objects_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// BenchmarkReads reads images of 110 kB, and of 5 kB, out of shards of 1000, in a random order,
// from a web server that takes 20 ms to the first byte; with as many readers as there are
// processors of a small host. An announced window is 512 images. It says how many requests each
// image takes, and how many bytes are sent for each one that is wanted.
//
//	go test -run '^$' -bench Reads -benchtime 2000x ./internal/files/objects
func BenchmarkReads(b *testing.B) {
	for _, size := range []int64{110_000, 5_000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { benchmarkReads(b, size) })
	}
}

func benchmarkReads(b *testing.B, size int64) {
	const perShard, shards, window = 1000, 8, 512
	data := make([]byte, 110_000)
	var requests, sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, size*perShard))
		w.Header().Set("Content-Length", fmt.Sprint(to-from+1))
		w.WriteHeader(http.StatusPartialContent)
		requests.Add(1)
		sent.Add(to - from + 1)
		for n := to - from + 1; n > 0; n -= int64(len(data)) {
			_, _ = w.Write(data[:min(n, int64(len(data)))])
		}
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	for _, readers := range []int{2, 8} {
		for _, ahead := range []bool{false, true} {
			b.Run(fmt.Sprintf("readers=%d/ahead=%v", readers, ahead), func(b *testing.B) {
				store := objects.NewHTTP(u, objects.HTTPConfig{})
				var before *objects.Ahead
				if ahead {
					before = objects.NewAhead(store, objects.AheadConfig{})
					store = before
				}
				defer store.Close()
				order := rand.New(rand.NewPCG(1, 2)).Perm(perShard * shards)
				rangeOf := func(n int) objects.Range {
					i := order[n%len(order)]
					return objects.Range{Object: objects.Info{Name: fmt.Sprintf("%d.tar", i/perShard), Size: size * perShard},
						Off: int64(i%perShard) * size, Length: size}
				}
				announce := func(from, to int) {
					if before == nil {
						return
					}
					var some []objects.Range
					for n := from; n < min(to, b.N); n++ {
						some = append(some, rangeOf(n))
					}
					before.Announce(b.Context(), some)
				}
				requests.Store(0)
				sent.Store(0)
				b.SetBytes(size)
				b.ResetTimer()
				announce(0, window)
				var next atomic.Int64
				var all sync.WaitGroup
				for range readers {
					all.Go(func() {
						p := make([]byte, size)
						for {
							n := int(next.Add(1)) - 1
							if n >= b.N {
								return
							}
							if n%64 == 0 {
								announce(n+window, n+window+64)
							}
							r := rangeOf(n)
							if err := store.ReadRange(b.Context(), r.Object, p, r.Off); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
				b.ReportMetric(float64(requests.Load())/float64(b.N), "requests/image")
				b.ReportMetric(float64(sent.Load())/float64(size)/float64(b.N), "sent/wanted")
			})
		}
	}
}

// BenchmarkCacheHits reads images of 110 kB out of a cache on a warm disk.
//
//	go test -run '^$' -bench CacheHits ./internal/files/objects
func BenchmarkCacheHits(b *testing.B) {
	const size, total = 110_000, 64 << 20
	memory := objectstest.New(map[string][]byte{"a": make([]byte, total)})
	object, err := memory.Stat(b.Context(), "a")
	if err != nil {
		b.Fatal(err)
	}
	cache, err := objects.NewCache(memory, objects.CacheConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, size)
	read := func(i int) {
		if err := cache.ReadRange(b.Context(), object, p, int64(i*7919*size%(total-size))); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 1000 {
		read(i)
	}
	b.SetBytes(size)
	for i := 0; b.Loop(); i++ {
		read(i)
	}
}
