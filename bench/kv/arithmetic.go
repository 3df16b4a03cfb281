package main

import (
	"math/rand/v2"
	"time"

	"github.com/paragon-train/paragon/bench/costs"
	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/optim"
)

const (
	// There are 64 MB of each kind of arithmetic's shards; two of them fit a cache.
	arithmeticShards = 64
	shardValues      = 256 << 10
)

// An arithmetic measures what a byte costs in loops over shards a and b.
type arithmetic struct {
	spell time.Duration
	a, b  [][]float32
}

// stageArithmetic measures copies, sums, updates and codes on shards that are in the cache, and on
// ones that are not: the least time of many spells of each.
func stageArithmetic(c *costs.Costs, spell time.Duration) {
	r := rand.New(rand.NewPCG(1, 1))
	m := &arithmetic{spell: spell, a: drawShards(r), b: drawShards(r)}
	c.Copy = m.perByte(func(i int) { copy(m.a[i], m.b[i]) })
	c.Sum = m.perByte(func(i int) { f32.AddTo(m.a[i], m.b[i]) })
	c.Update, c.Encode, c.Decode = map[string]costs.Line{"none": {}}, map[string]costs.Line{"none": {}}, map[string]costs.Line{"none": c.Sum}
	m.updates(c)
	m.codes(c)
}

// drawShards makes shards whose values are alike, since drawing takes longer than what is measured.
func drawShards(r *rand.Rand) [][]float32 {
	out := make([][]float32, arithmeticShards)
	for i := range out {
		out[i] = make([]float32, shardValues)
		if i > 0 {
			copy(out[i], out[0])
			continue
		}
		for j := range out[i] {
			out[i][j] = float32(r.NormFloat64())
		}
	}
	return out
}

// least is the least time of f for a byte, over so many shards in turn. A first pass touches the
// memory.
func (m *arithmetic) least(shards int, f func(i int)) float64 {
	for i := range shards {
		f(i)
	}
	best := time.Duration(1 << 62)
	for begun, i := time.Now(), 0; i < 2*shards || time.Since(begun) < m.spell; i++ {
		start := time.Now()
		f(i % shards)
		best = min(best, time.Since(start))
	}
	return costs.Round(best.Seconds() / (4 * shardValues))
}

// perByte is what f costs in the cache and beyond it.
func (m *arithmetic) perByte(f func(i int)) costs.Line {
	near := m.least(2, f)
	return costs.Line{Byte: near, Far: max(near, m.least(arithmeticShards, f))}
}

// updates measures update rules. Their configs are written here and the lengths fit, so an error is
// one of this program.
func (m *arithmetic) updates(c *costs.Costs) {
	for _, cfg := range []optim.Config{{Name: "sgd", LearningRate: 1e-4}, {Name: "sgd", LearningRate: 1e-4, Momentum: 0.9}, {Name: "adagrad", LearningRate: 1e-4}, {Name: "adam", LearningRate: 1e-4}} {
		o, err := optim.New(cfg)
		if err != nil {
			panic(err)
		}
		states := make([]*optim.State, arithmeticShards)
		for i := range states {
			states[i] = o.NewState(shardValues)
		}
		name := cfg.Name
		if cfg.Momentum > 0 {
			name += "+momentum"
		}
		c.Update[name] = m.perByte(func(i int) {
			if err := o.At(1, 1, optim.Factors{LearningRate: 1, WeightDecay: 1}).Update(m.a[i], m.b[i], states[i]); err != nil {
				panic(err)
			}
		})
	}
}

// codes measures compression: of a gradient into its code, and of a code that is added to a sum.
func (m *arithmetic) codes(c *costs.Costs) {
	halves, code := make([]uint16, shardValues), make([]byte, 4*shardValues)
	c.Encode["fp16"] = m.perByte(func(i int) { f32.ToFloat16(halves, m.b[i]) })
	c.Encode["bf16"] = m.perByte(func(i int) { f32.ToBFloat16(halves, m.b[i]) })
	two, one := code[:f32.Code2BitLen(shardValues)], code[:f32.Code1BitLen(shardValues)]
	c.Encode["2bit"] = m.perByte(func(i int) { f32.Encode2Bit(two, m.a[i], m.b[i], 0.5) })
	c.Decode["2bit"] = m.perByte(func(i int) { f32.AddDecoded2Bit(m.a[i], two, 0.5) })
	c.Encode["1bit"] = m.perByte(func(i int) { f32.Encode1Bit(one, m.a[i], m.b[i], 0.5) })
	c.Decode["1bit"] = m.perByte(func(i int) { f32.AddDecoded1Bit(m.a[i], one) })

	// Halves are decoded and added in parts that stay in the first-level cache, as servers do it.
	part := make([]float32, 1024)
	half := func(from func(dst []float32, x []uint16)) func(i int) {
		return func(i int) {
			for lo := 0; lo < shardValues; lo += len(part) {
				from(part, halves[lo:lo+len(part)])
				f32.AddTo(m.a[i][lo:lo+len(part)], part)
			}
		}
	}
	c.Decode["fp16"], c.Decode["bf16"] = m.perByte(half(f32.FromFloat16)), m.perByte(half(f32.FromBFloat16))
}
