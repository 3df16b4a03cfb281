package f32

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowest is the choice by sorting.
func slowest(x []float32, k int) []uint32 {
	var all []uint32
	for i, v := range x {
		if v != 0 { // NaN too
			all = append(all, uint32(i))
		}
	}
	size := func(i uint32) uint32 { return math.Float32bits(x[i]) & 0x7fffffff }
	slices.SortFunc(all, func(a, b uint32) int { return cmp.Or(-cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
	all = all[:min(k, len(all))]
	slices.Sort(all)
	return all
}

// Whatever the values, the choice is the one that sorting makes, on every path.
func TestTopKChoosesTheLargestAndOfEqualOnesTheFirst(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	kinds := map[string]func(r *rand.Rand, i, n int) float32{
		"normal":     func(r *rand.Rand, _, _ int) float32 { return float32(r.NormFloat64()) },
		"few levels": func(r *rand.Rand, _, _ int) float32 { return float32(r.IntN(7) - 3) },
		"all equal":  func(*rand.Rand, int, int) float32 { return -0.25 },
		"zero":       func(*rand.Rand, int, int) float32 { return 0 },
		"nearly all zero": func(r *rand.Rand, _, _ int) float32 {
			if r.IntN(300) > 0 {
				return float32(math.Copysign(0, -1))
			}
			return float32(r.NormFloat64())
		},
		"large at the end": func(r *rand.Rand, i, n int) float32 { // a small sample sees none
			if i > n-n/50 {
				return 1e20 * float32(1+r.IntN(3))
			}
			return float32(r.NormFloat64())
		},
		"where the sample looks": func(r *rand.Rand, i, _ int) float32 {
			if i%4 == 0 {
				return 1e10 * r.Float32()
			}
			return 1e-10 * r.Float32()
		},
		"wide": func(r *rand.Rand, _, _ int) float32 { return math.Float32frombits(r.Uint32()) },
		"no numbers": func(r *rand.Rand, _, _ int) float32 {
			return []float32{nan, inf, -inf, 1, 1e-45}[r.IntN(5)]
		},
	}
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 9))
		var top TopK
		for name, draw := range kinds {
			for _, n := range []int{1, 2, 15, 17, 1000, 16_387} {
				x := make([]float32, n)
				for i := range x {
					x[i] = draw(r, i, n)
				}
				for _, k := range []int{1, n / 100, n / 4, n - 1} {
					if k < 1 || k > n {
						continue
					}
					if got, want := top.choose(x, k), slowest(x, k); !slices.Equal(got, want) {
						t.Fatalf("%s: %d of %d: got %d indices %v, want %d %v", name, k, n, len(got), short(got), len(want), short(want))
					}
				}
			}
		}
	})
}

func short(x []uint32) []uint32 { return x[:min(10, len(x))] }

// Over pushes nothing is lost: what was said and what stays add up to what came, to the bit where
// no two values were added.
func TestTopKSaysTheLargestAndKeepsTheRest(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 9))
		var top TopK
		for _, n := range []int{0, 1, 3, 4, 5, 33, 1000, 17_000} {
			for _, k := range []int{1, n / 100, n / 3, n} {
				k = min(max(k, 1), n)
				residual, code := make([]float32, n), make([]byte, CodeTopKLen(n, k))
				for round := range 3 {
					g := normal(r, n)
					want := slices.Clone(residual)
					AddTo(want, g)
					got := top.Encode(code, residual, g, k)
					if err := CheckTopK(got, n); err != nil {
						t.Fatalf("%d of %d, round %d: %v", k, n, round, err)
					}
					said := make([]float32, n)
					AddDecodedTopK(said, got)
					for i := range said {
						if said[i] != 0 && residual[i] != 0 {
							t.Fatalf("%d of %d: value %d: said %g and kept %g, want one of them 0", k, n, i, said[i], residual[i])
						}
						said[i] += residual[i]
					}
					if i := firstDifferent(said, want); i >= 0 {
						t.Fatalf("%d of %d: value %d: said and kept %g, want %g", k, n, i, said[i], want[i])
					}
				}
			}
		}
	})
}

func firstDifferent(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// The bytes of a code, worked out by hand.
func TestTopKCodesOfTheKnownExamples(t *testing.T) {
	far := make([]float32, 400)
	far[3], far[260], far[399] = 1, -2, 0.5
	dense := make([]float32, 100)
	for i := range 30 {
		dense[3*i] = 1
	}
	small := make([]float32, 16)
	small[0], small[15] = 1, -1
	for _, x := range []struct {
		name string
		grad []float32
		k    int
		want string
	}{
		{"gaps", far, 3, "03000000 00000000 0000803f 000000c0 0000003f 03 8002 8a01"},
		{"fewer than k are not zero", far, 4, "03000000 00000000 0000803f 000000c0 0000003f 03 8002 8a01"},
		{"bitmap", dense, 30, "1e000000 01000000 " + strings.Repeat("0000803f", 30) + "499224499224499224" + "49920000"},
		{"alike: gaps", small, 2, "02000000 00000000 0000803f 000080bf 00 0e"},
		{"nothing", small[1:15], 2, "00000000 00000000"},
		{"all", []float32{1, 2, -1}, 1, "0000803f 00000040 000080bf"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var top TopK
			code := top.Encode(make([]byte, CodeTopKLen(len(x.grad), x.k)), make([]float32, len(x.grad)), x.grad, x.k)
			if got, want := hex.EncodeToString(code), strings.ReplaceAll(x.want, " ", ""); got != want {
				t.Errorf("code of the %d largest:\ngot  %s\nwant %s", x.k, got, want)
			}
		})
	}
}

func TestTopKCodesFromOutsideAreChecked(t *testing.T) {
	for _, x := range []struct {
		n          int
		code, want string
	}{
		{100, "", "got 0 bytes, want 8 to 400"},
		{1, "00000000", ""}, // all one of them
		{1, "0000000000", "got 5 bytes, want 4 to 4 for 1 values"},
		{100, "00000000000000", "got 7 bytes"},
		{2, "000000000000000000", "got 9 bytes, want 8 to 8"},
		{100, "0100000000000000", "a count of 1 of 100 values in 8 bytes"},
		{100, "ffffffff00000000", "a count of 4294967295"},
		{100, "0000000002000000", "got form 2"},
		{100, "010000000000000000000000", "end in value 0 of 1"},
		{100, "01000000000000000000000080", "end in value 0 of 1"},
		{100, "0100000000000000000000008000", "a byte more than it needs"},
		{100, "010000000000000000000000ffffffffff01", "more than 5 bytes"},
		{100, "01000000000000000000000064", "got index 100 of 100"},
		{100, "0200000000000000000000000000000063" + "00", "got index 100 of 100"},
		{100, "0100000000000000000000000505", "got 2 bytes of gaps, want 1"},
		{8, "010000000000000000000000" + "0101", "got gaps of 2 bytes, want at most the 1 of a bitmap"},
		{100, "0100000001000000000000000100000000000000000000000000", "want 13"},
		{100, "010000000100000000000000" + "01000000000000000000000000", "a bitmap where gaps are no longer"},
		{12, "030000000100000000000000000000000000000007" + "10", "got index 12 of 12"},
		{12, "020000000100000000000000000000000700", "got 3 bits set, want 2"},
	} {
		code, err := hex.DecodeString(x.code)
		if err != nil {
			t.Fatal(err)
		}
		err = CheckTopK(code, x.n)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s of %d values: got error %v, want %q", x.code, x.n, err, x.want)
		}
	}
}

// What the check lets through is decoded without a panic, and is the one code of what it says.
func FuzzTopKCode(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 9))
	for _, x := range []struct{ n, k int }{{0, 0}, {3, 1}, {100, 5}, {100, 30}, {300, 3}, {400, 90}} {
		var top TopK
		g := normal(r, x.n)
		f.Add(uint16(x.n), top.Encode(make([]byte, CodeTopKLen(x.n, x.k)), make([]float32, x.n), g, x.k))
	}
	f.Fuzz(func(t *testing.T, n uint16, code []byte) {
		if CheckTopK(code, int(n)) != nil {
			return
		}
		dst := make([]float32, n)
		AddDecodedTopK(dst, code)
		if len(code) == 4*int(n) {
			return
		}
		for i := range dst {
			dst[i] = 0 // now find the indices alone
		}
		count := int(code[0]) | int(code[1])<<8
		ones := bytes.Clone(code)
		for i := range count {
			copy(ones[8+4*i:], "\x00\x00\x80\x3f")
		}
		AddDecodedTopK(dst, ones)
		var found []uint32
		for i, v := range dst {
			if v != 0 {
				found = append(found, uint32(i))
			}
		}
		again := make([]byte, 8+4*count+5*count+int(n)/8+1)
		copy(again[8:], code[8:8+4*count])
		if again = again[:8+4*count+putIndices(again, found, int(n))]; !bytes.Equal(again, code) {
			t.Errorf("%d values: got % x, encoded again % x", n, code, again)
		}
	})
}

// collect finds every large value among those that it has read. It stops early only where less than
// 16 entries of room are left, and writes nothing behind the room.
func TestCollectKeepsToItsRoom(t *testing.T) {
	onPaths(t, func(t *testing.T) {
		const behind = 64
		r := rand.New(rand.NewPCG(9, 2))
		for _, n := range []int{0, 1, 15, 16, 17, 64, 100, 256} {
			for room := range 80 {
				x := make([]float32, n)
				for i := range x {
					// −1 and 1 are large. The more room there is, the fewer are large.
					x[i] = float32(r.IntN(room/16+2)) - 1
				}
				all := make([]uint32, room+behind)
				for i := range all {
					all[i] = 0xdeadbeef
				}
				done, count := kernels.collect(all[:room:room], x, math.Float32bits(1))
				var want []uint32
				for i, v := range x[:done] {
					if v*v >= 1 {
						want = append(want, uint32(i))
					}
				}
				if count > room || !slices.Equal(all[:count], want) {
					t.Fatalf("%d values, room for %d: got %v of the first %d, want %v", n, room, all[:min(count, room)], done, want)
				}
				if done < n && count+lanes <= room {
					t.Fatalf("%d values, room for %d: stopped after %d values with %d found", n, room, done, count)
				}
				for i, v := range all[room:] {
					if v != 0xdeadbeef {
						t.Fatalf("%d values, room for %d: entry %d was written", n, room, room+i)
					}
				}
			}
		}
	})
}

func BenchmarkTopK(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 1))
	g := normal(r, n)
	for _, ratio := range []float64{0.001, 0.01, 0.1} {
		k := int(ratio * n)
		var top TopK
		residual, code, out := make([]float32, n), make([]byte, CodeTopKLen(n, k)), make([]float32, n)
		Scale(g, 1e-3, g)
		said := top.Encode(code, residual, g, k)
		for name, f := range map[string]func(){
			"Encode":         func() { said = top.Encode(code, residual, g, k) },
			"CheckTopK":      func() { _ = CheckTopK(said, n) },
			"AddDecodedTopK": func() { AddDecodedTopK(out, said) },
		} {
			b.Run(fmt.Sprintf("op=%s/ratio=%v", name, ratio), func(b *testing.B) {
				b.SetBytes(4 * n)
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
