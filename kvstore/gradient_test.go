package kvstore

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/kvstore/internal/buffer"
)

// newEncoding returns the encoding of a key of two shards, of two values each.
func newEncoding(c Compression) *encoding {
	cfg := &settings{native: buffer.LittleEndian, logger: slog.New(slog.DiscardHandler)}
	k := newKey(&keyEnv{settings: cfg}, &wire.KeyPlan{Name: "x", Form: wire.FormDense, Size: 4, Shards: []wire.ShardPlace{{Length: 2}, {Offset: 2, Length: 2}}})
	rules := newRoundRules(cfg, func() int { return 0 }, func() bool { return false })
	return &encoding{rules: rules, k: k, c: c.withDefaults(), verb: "push", weight: 1}
}

// payloads copies what a gradient sends.
func payloads(g *gradient) (all [][]byte) {
	for i := range g.payloads {
		all = append(all, slices.Clone(g.payloads[i][0]))
	}
	return all
}

// A gradient whose push failed is sent as it was, and what it left out counts once.
func TestAnEncodedGradientIsNotEncodedTwice(t *testing.T) {
	e, g := newEncoding(Compression{Type: "2bit", Threshold: 0.5}), newGradient(2)
	grads := [][]float32{{0.6, -0.7, 0.1, 0.5}}
	if err := g.fill(e, grads); err != nil {
		t.Fatal(err)
	}
	first, residual := payloads(&g), slices.Clone(e.k.residuals().residuals[0])
	g.release(errors.New("lost"))
	if !g.encoded {
		t.Fatal("a compressed gradient of a push that failed is not kept")
	}
	if err := g.fill(e, [][]float32{{9, 9, 9, 9}}); err != nil {
		t.Fatal(err)
	}
	if again := payloads(&g); !slices.EqualFunc(first, again, slices.Equal) || !slices.Equal(residual, e.k.residuals().residuals[0]) {
		t.Errorf("the repeat sends %x with residual %v, want %x and %v", again, e.k.residuals().residuals[0], first, residual)
	}
	g.release(nil)
	if g.encoded || g.payloads[0][0] != nil {
		t.Error("after a push that was acknowledged: the gradient or the caller's memory is kept")
	}
	e.c = Compression{Type: "1bit"}.withDefaults()
	if err := g.fill(e, grads); err != nil || slices.EqualFunc(first, payloads(&g), slices.Equal) {
		t.Errorf("under another compression: got error %v and the same codes", err)
	}
}

// A gradient that no code stands for changes no residual, of no shard.
func TestARefusedGradientChangesNothing(t *testing.T) {
	e, g := newEncoding(Compression{Type: "2bit", Threshold: 0.5}), newGradient(2)
	if err := g.fill(e, [][]float32{{0.6, 0, 0, 0.2}}); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(e.k.residuals().residuals[0])
	inf := float32(1e38)
	if err := g.fill(e, [][]float32{{0.6, 0.6, 0.6, inf * 10}}); !errors.Is(err, ErrNotFinite) {
		t.Errorf("got error %v, want ErrNotFinite", err)
	}
	if after := e.k.residuals().residuals[0]; !slices.Equal(before, after) {
		t.Errorf("residuals: got %v, want %v as before", after, before)
	}
}

// A shard whose values its code cannot reach is sent as it is, with its residual, and its head says
// so; the others are not.
func TestAShardThatCannotBeEncodedIsSentWhole(t *testing.T) {
	e, g := newEncoding(Compression{Type: "2bit", Threshold: 0.5}), newGradient(2)
	if err := g.fill(e, [][]float32{{0.3, 0, 0, 0}}); err != nil {
		t.Fatal(err)
	}
	if err := g.fill(e, [][]float32{{1000, 0, 0.6, 0}}); err != nil {
		t.Fatal(err)
	}
	heads := []wire.Push{{Codec: e.codec()}, {Codec: e.codec()}}
	for i := range heads {
		g.describe(i, &heads[i])
	}
	if heads[0].Codec != wire.CodecFloat32 || heads[0].Threshold != 0 || heads[1].Codec != wire.Codec2Bit || heads[1].Threshold != 0.5 {
		t.Errorf("heads: got codecs %d and %d with thresholds %v and %v, want float32, and 2bit with 0.5", heads[0].Codec, heads[1].Codec, heads[0].Threshold, heads[1].Threshold)
	}
	whole := make([]float32, 2)
	copy(buffer.BytesOf(whole), g.payloads[0][0])
	if buffer.LittleEndian && (whole[0] != 1000.3 || e.k.residuals().residuals[0][0] != 0) {
		t.Errorf("sent %v and kept %v, want 1000.3 and 0", whole[0], e.k.residuals().residuals[0][0])
	}
}
