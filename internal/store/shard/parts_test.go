package shard

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// denseConfig describes a dense shard of n values, for the tests of the parts of a shard: none of
// them makes a Shard.
func denseConfig(n int) *Config {
	return &Config{Name: "w", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: uint64(n), Size: uint64(n), Shards: 1, Host: &Host{Pool: &Pool{}}}
}

// payloadWith returns values as a float32 payload.
func payloadWith(cfg *Config, values ...float32) payload {
	data := cfg.Pool.Get(4 * len(values))
	copy(data.Float32s(len(values)), values)
	return payload{data: data, codec: wire.CodecFloat32}
}

// slotWith returns a slot with a contribution of weight 1.
func slotWith(cfg *Config, rank, group uint32, values ...float32) slot {
	return slot{node: node(int(rank)), rank: rank, group: group, seq: 1, weight: 1, payload: payloadWith(cfg, values...)}
}

// membershipOf returns a membership of ranks 0, 1, ... in these groups.
func membershipOf(t testing.TB, groups ...uint32) *membership {
	t.Helper()
	x := &membership{}
	if _, _, err := x.replace(denseConfig(1), 1, ranksIn(groups...), false); err != nil {
		t.Fatal(err)
	}
	return x
}

// ranksIn returns members of ranks 0, 1, ... in these groups.
func ranksIn(groups ...uint32) (list []Member) {
	for rank, group := range groups {
		list = append(list, Member{Node: node(rank), Rank: uint32(rank), Group: group})
	}
	return list
}
