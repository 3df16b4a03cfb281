package bridge

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/jobtest"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// BenchmarkExchange is a step of 62 small keys by a store alone, and by a bridge: one packet, one
// answer. The difference is what the bridge adds.
//
//	go test -run '^$' -bench Exchange -count 10 ./launch/internal/bridge
func BenchmarkExchange(b *testing.B) {
	const keys, values = 62, 256
	job := func(b *testing.B) *jobtest.Job {
		return jobtest.New(b, jobtest.Config{Workers: 1, Servers: 2, TCP: true})
	}
	b.Run("by=store", func(b *testing.B) {
		kv, err := joining.Join(b.Context(), job(b).WorkerConfig(0), "dist_sync")
		if err != nil {
			b.Fatal(err)
		}
		defer kv.Close()
		entries := make([]kvstore.Entry, keys)
		for i := range entries {
			key, memory := fmt.Sprint("key", i), make([]float32, 2*values)
			if err := kv.InitAverage(b.Context(), key, memory[:values]); err != nil {
				b.Fatal(err)
			}
			entries[i] = kvstore.Entry{Key: key, Grads: [][]float32{memory[:values]}, Outs: [][]float32{memory[values:]}}
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := kv.PushPullMany(b.Context(), entries); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by=bridge", func(b *testing.B) {
		p := newPython(b, of(job(b), 0)).join("dist_sync")
		sizes := make([]int, keys)
		for i := range sizes {
			sizes[i] = values
		}
		_, plan := p.plan(sizes...)
		packet, answer := make([]byte, exchangeBytes), make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			p.exchanged++
			copy(packet, exchangePacketOf(exchangePacket{flags: flagAnswer, plan: plan, number: p.exchanged, count: keys, weight: 1}))
			p.write(packet)
			if n, err := p.socket.Read(answer); n != answerBytes || err != nil {
				b.Fatalf("got %d bytes, %v", n, err)
			}
		}
	})
	b.Run("by=nothing", func(b *testing.B) {
		p := newPython(b, of(job(b), 0)).join("dist_sync")
		answer := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			p.exchanged++
			p.write(exchangePacketOf(exchangePacket{flags: flagAnswer, number: p.exchanged}))
			if n, err := p.socket.Read(answer); n != answerBytes || err != nil {
				b.Fatalf("got %d bytes, %v", n, err)
			}
		}
	})
}
