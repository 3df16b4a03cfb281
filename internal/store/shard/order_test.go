package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/alloctest"
	"github.com/paragon-train/paragon/optim"
)

// permutations calls visit with every order of 0..n-1.
func permutations(n int, visit func([]int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			visit(order)
			return
		}
		for r := range n {
			if !slices.Contains(order, r) {
				order = append(order, r)
				next()
				order = order[:len(order)-1]
			}
		}
	}
	next()
}

// Sums of float32 depend on the order; arrival order must not.
func TestSumIsTheSameBitForBitInEveryArrivalOrder(t *testing.T) {
	const n, workers = 33, 4
	random := rand.New(rand.NewPCG(1, 2))
	grads := make([][]float32, workers)
	want := make([]float32, n)
	for r := range grads {
		for range n {
			grads[r] = append(grads[r], float32(random.NormFloat64()*math.Pow(10, float64(random.IntN(9)))))
		}
		for i, g := range grads[r] {
			want[i] += g
		}
	}
	permutations(workers, func(order []int) {
		s := dense(t, workers, make([]float32, n)...)
		for _, r := range order {
			mustPush(t, s, contribution(s, r, 0, grads[r]...), Held)
		}
		wantValue(t, s, 1, want...)
	})
}

// What waits is bounded: contributions next in order are added and given back at once, and no more
// than two of a worker are ever held.
func TestHeldMemoryIsBoundedInTheWorstOrder(t *testing.T) {
	const workers, n = 8, 100
	s := dense(t, workers, make([]float32, n)...)
	_, words := classOf(4 * n / 8)
	grad := make([]float32, n)
	base := s.cfg.Pool.Taken()
	for r := range workers { // best order: one sum, whatever came
		mustPush(t, s, contribution(s, r, 0, grad...), Held)
		if got, most := s.cfg.Pool.Taken()-base, int64(8*words); got > most {
			t.Fatalf("after rank %d in order: %d bytes held, want at most %d", r, got, most)
		}
	}
	for r := workers - 1; r >= 0; r-- { // worst order, and all are one ahead too
		if r > 0 {
			mustPush(t, s, contribution(s, r, 2, grad...), Held)
		}
		mustPush(t, s, contribution(s, r, 1, grad...), Held)
		if got, most := s.cfg.Pool.Taken()-base, int64(2*workers*8*words); got > most {
			t.Fatalf("after rank %d in reverse: %d bytes held, want at most %d", r, got, most)
		}
	}
	wantValue(t, s, 2, grad...)
}

// Where any order will do, nothing waits: each contribution is added when it comes, and its memory
// given back.
func TestSumsInAnyOrderHoldNothing(t *testing.T) {
	const workers, n = 8, 100
	s := dense(t, workers, make([]float32, n)...)
	if err := s.SetMode(wire.ModeAnyOrder); err != nil {
		t.Fatal(err)
	}
	_, words := classOf(4 * n / 8)
	want := make([]float32, n)
	base := s.cfg.Pool.Taken()
	for r := workers - 1; r >= 0; r-- {
		grad := make([]float32, n)
		for i := range grad {
			grad[i] = float32(1 + r*n + i)
			want[i] += grad[i] // whole numbers: exact in any order
		}
		mustPush(t, s, contribution(s, r, 0, grad...), Held)
		if got, most := s.cfg.Pool.Taken()-base, int64(8*words); got > most {
			t.Fatalf("after rank %d in reverse: %d bytes held, want at most %d", r, got, most)
		}
		if r == 3 { // again: counted once
			mustPush(t, s, contribution(s, r, 0, grad...), Repeated)
		}
	}
	wantValue(t, s, 1, want...)
	if err := s.SetMode(wire.ModeSync); err == nil {
		t.Error("another mode after contributions: got no error")
	}
	// One that runs ahead is held, and added when its round opens.
	grad := want
	mustPush(t, s, contribution(s, 5, 1, grad...), Held)
	mustPush(t, s, contribution(s, 5, 2, grad...), Held)
	for _, r := range []int{7, 1, 0, 3, 2, 6, 4} {
		mustPush(t, s, contribution(s, r, 1, make([]float32, n)...), Held)
	}
	wantValue(t, s, 2, grad...)
	for _, r := range []int{4, 6, 2, 3, 0, 1, 7} {
		mustPush(t, s, contribution(s, r, 2, make([]float32, n)...), Held)
	}
	wantValue(t, s, 3, grad...)
}

// Any order of arrival, with repeats, runs ahead and lost answers, ends in the same bits.
func TestRandomArrivalsEndInTheSameValue(t *testing.T) {
	const rounds, n = 12, 5
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		workers := 1 + random.IntN(5)
		grad := func(r int, round uint64) []float32 {
			g := rand.New(rand.NewPCG(uint64(r), round))
			out := make([]float32, n)
			for i := range out {
				out[i] = float32(g.NormFloat64()) * 1e3
			}
			return out
		}
		cfg := optim.Config{Name: "sgd", LearningRate: 0.1, Momentum: 0.9}

		want := dense(t, workers, make([]float32, n)...)
		setOptimizer(t, want, cfg)
		for round := range uint64(rounds) {
			for r := range workers {
				mustPush(t, want, contribution(want, r, round, grad(r, round)...), Held)
			}
		}

		s := dense(t, workers, make([]float32, n)...)
		setOptimizer(t, s, cfg)
		next := make([]uint64, workers) // each worker's next round
		for left := workers * rounds; left > 0; {
			r := random.IntN(workers)
			if next[r] > 0 && random.IntN(3) == 0 { // repeats an old one
				old := random.Uint64N(next[r])
				mustPush(t, s, contribution(s, r, old, grad(r, 1000)...), Repeated)
				continue
			}
			if next[r] == rounds {
				continue
			}
			ahead := next[r] > s.Rounds()+1
			want := Held
			if ahead {
				want = Ahead
			}
			mustPush(t, s, contribution(s, r, next[r], grad(r, next[r])...), want)
			if !ahead {
				next[r]++
				left--
			}
		}
		v, _, _ := want.Pull(Want{Round: rounds})
		wantValue(t, s, rounds, v.Float32s()...)
		wantNothingHeld(t, s)
	}
}

func TestCodecWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		name      string
		codec     uint8
		threshold float32
		payload   []byte
		want      []float32
	}{
		{"2bit", wire.Codec2Bit, 0.5, []byte{0xe3, 0x80, 0, 0}, []float32{.5, -.5, 0, .5, -.5}},
		{"1bit", wire.Codec1Bit, 0, []byte{0x95, 0x80, 0, 0}, []float32{1, -1, -1, 1, -1, 1, -1, 1, 1}},
		{"1bit all minus", wire.Codec1Bit, 0, []byte{0, 0, 0, 0}, []float32{-1, -1, -1}},
		{"fp16", wire.CodecFloat16, 0, []byte{0x00, 0x3c, 0x00, 0xc0, 0xff, 0x7b}, []float32{1, -2, 65504}},
		{"bf16", wire.CodecBFloat16, 0, []byte{0x80, 0x3f, 0x00, 0xc0}, []float32{1, -2}},
		{"topk, gaps", wire.CodecTopK, 0, []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 2}, []float32{0, 1, 0, 0, -2, 0, 0, 0, 0}},
		{"topk, bitmap", wire.CodecTopK, 0, []byte{2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0x12}, []float32{0, 1, 0, 0, -2, 0, 0, 0}},
		{"topk, nothing", wire.CodecTopK, 0, []byte{0, 0, 0, 0, 0, 0, 0, 0}, []float32{0, 0, 0}},
		{"topk, all", wire.CodecTopK, 0, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, []float32{1, -2}},
		{"fp32", wire.CodecFloat32, 0, []byte{0, 0, 0x80, 0x3f}, []float32{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if least, most, err := PayloadSize(c.codec, len(c.want)); err != nil || len(c.payload) < least || len(c.payload) > most {
				t.Fatalf("payload of %d values: got %d to %d bytes, error %v; want %d among them", len(c.want), least, most, err, len(c.payload))
			}
			const workers = 3
			s := dense(t, workers, make([]float32, len(c.want))...)
			sum := make([]float32, len(c.want))
			for r := workers - 1; r >= 0; r-- { // the first in order is decoded, the others are added
				push := contribution(s, r, 0)
				push.Codec, push.Threshold, push.Size = c.codec, c.threshold, len(c.payload)
				push.Data = s.cfg.Pool.Get(len(c.payload))
				copy(push.Data.Bytes(len(c.payload)), c.payload)
				mustPush(t, s, push, Held)
				for i := range sum {
					sum[i] += c.want[i]
				}
			}
			wantValue(t, s, 1, sum...)
		})
	}
}

// Halves are added in blocks; a length that is no multiple of a block must come out whole.
func TestHalvesAreAddedAtAnyLength(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 3000} {
		s := dense(t, 2, make([]float32, n)...)
		want := make([]float32, n)
		for r := range 2 {
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(i % 512)
				want[i] += values[i]
			}
			push := contribution(s, r, 0)
			push.Codec = wire.CodecFloat16
			push.Data, _ = Encode(s.cfg.Pool, wire.CodecFloat16, values)
			mustPush(t, s, push, Held)
		}
		wantValue(t, s, 1, want...)
	}
}

func TestSizeClassesHoldWhatIsAsked(t *testing.T) {
	last := -1
	for n := range 100_000 {
		class, words := classOf(n)
		if words < n || n > smallWords && 4*words > 5*n+8 {
			t.Fatalf("class of %d words: got %d words, want at least that and at most a quarter more", n, words)
		}
		if class < last {
			t.Fatalf("class of %d words: got %d after %d", n, class, last)
		}
		if again, w := classOf(words); again != class || w != words {
			t.Fatalf("class of %d words: got %d of %d, want its own, %d", words, again, w, class)
		}
		last = class
	}
}

func TestSteadyRoundsAllocateNothing(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for _, cfg := range []struct {
			optim.Config
			codec uint8
		}{{}, {codec: wire.CodecBFloat16}, {codec: wire.CodecFloat16}, {Config: optim.Config{Name: "sgd", Momentum: 0.9}}, {Config: optim.Config{Name: "adam"}}} {
			t.Run(fmt.Sprintf("workers=%d/optimizer=%s/codec=%d", workers, cfg.Name, cfg.codec), func(t *testing.T) {
				s := dense(t, workers, make([]float32, 1000)...)
				if cfg.Name != "" {
					setOptimizer(t, s, cfg.Config)
				}
				size, _, _ := PayloadSize(cfg.codec, 1000)
				round := uint64(0)
				step := func() {
					_, w, _ := s.Pull(Want{Node: node(0), Round: round + 1})
					for r := workers - 1; r >= 0; r-- {
						c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Codec: cfg.codec, Data: s.cfg.Pool.Get(size)}
						clear(c.Data.Bytes(size))
						if status, err := s.Push(c); status != Held || err != nil {
							t.Fatal(status, err)
						}
					}
					round++
					<-w.Done()
					v, err := w.Result()
					if err != nil {
						t.Fatal(err)
					}
					v.Release()
				}
				step()
				if got := alloctest.PerRun(50, step); got != 0 {
					t.Errorf("allocations of a round: got %v, want 0", got)
				}
			})
		}
	}
}

// go test ./internal/store/shard -bench Round
func BenchmarkRound(b *testing.B) {
	for _, workers := range []int{1, 2, 8} {
		for _, n := range []int{256, 1 << 18} {
			for _, name := range []string{"none", "sgd", "adam"} {
				b.Run(fmt.Sprintf("workers=%d/floats=%d/optimizer=%s", workers, n, name), func(b *testing.B) {
					s := dense(b, workers, make([]float32, n)...)
					if name != "none" {
						setOptimizer(b, s, optim.Config{Name: name})
					}
					b.SetBytes(int64(workers) * 4 * int64(n))
					round := uint64(0)
					for b.Loop() {
						for r := range workers {
							c := Contribution{Generation: 1, Node: node(r), Seq: round + 1, Round: round, Weight: 1, Data: s.cfg.Pool.Get(4 * n)}
							if status, err := s.Push(c); status != Held || err != nil {
								b.Fatal(status, err)
							}
						}
						round++
					}
				})
			}
		}
	}
}

// BenchmarkWorstOrder is a round of eight workers whose ranks come last to first. held-MB is what
// the shard holds at most besides its value, close-us the time from the last contribution to the
// new value.
func BenchmarkWorstOrder(b *testing.B) {
	const workers, n = 8, 1 << 20
	for name, mode := range map[string]uint8{"rank": wire.ModeSync, "any": wire.ModeAnyOrder} {
		b.Run("order="+name, func(b *testing.B) {
			s := dense(b, workers, make([]float32, n)...)
			if err := s.SetMode(mode); err != nil {
				b.Fatal(err)
			}
			grad := make([]float32, n)
			base, held := s.cfg.Pool.Taken(), int64(0)
			var closing time.Duration
			round := uint64(0)
			for b.Loop() {
				for r := workers - 1; r >= 0; r-- {
					c := contribution(s, r, round, grad...)
					begin := time.Now()
					mustPush(b, s, c, Held)
					if r == 0 {
						closing += time.Since(begin)
					}
					held = max(held, s.cfg.Pool.Taken()-base)
				}
				round++
			}
			b.ReportMetric(float64(held)/1e6, "held-MB")
			b.ReportMetric(float64(closing.Microseconds())/float64(b.N), "close-us/op")
		})
	}
}
