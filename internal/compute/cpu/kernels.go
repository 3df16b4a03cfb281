package cpu

import (
	"maps"

	"github.com/paragon-train/paragon/internal/compute/cpu/conv"
	"github.com/paragon-train/paragon/internal/compute/f32"
)

// families returns the builders of all families. Each family holds what its kernels need and
// nothing else. They are made for each executor: a table of the package would link all kernels into
// programs that run none.
func families(mem *memory, t threads, ex *examples, r *runningStates, cfg Config) builders {
	newConv, tile := conv.New, f32.Tiles(f32.Active())
	if cfg.BFloat16 {
		newConv, tile = conv.NewBFloat16, f32.BFloat16Tiles()
	}
	all := builders{}
	for _, family := range []builders{
		(&generic{mem: mem}).builders(),
		(&elementwise{mem: mem, threads: t}).builders(),
		(&activations{mem: mem, threads: t}).builders(),
		(&layouts{mem: mem, threads: t}).builders(),
		(&dropout{mem: mem, threads: t, counts: &mem.shared.counts, stream: cfg.Stream}).builders(),
		(&biases{mem: mem, threads: t}).builders(),
		(&convolutions{mem: mem, threads: t, newPlan: newConv, plans: make(map[conv.Shape]*conv.Plan)}).builders(),
		(&products{mem: mem, threads: t, tile: tile, gemm: f32.NewGemm(t.pool)}).builders(),
		(&attentions{mem: mem, threads: t, tile: tile, counts: &mem.shared.counts, stream: cfg.Stream, inference: ex.plan.Inference}).builders(),
		(&recurrents{mem: mem, threads: t, tile: tile}).builders(),
		(&rotaries{mem: mem, threads: t}).builders(),
		(&norms{mem: mem, threads: t, examples: ex, running: r, inference: ex.plan.Inference}).builders(),
		(&pooling{mem: mem, threads: t}).builders(),
		(&upsampling{mem: mem, threads: t}).builders(),
		(&rowNorms{mem: mem, threads: t}).builders(),
		(&groupNorms{mem: mem, threads: t}).builders(),
		(&pieceCopies{mem: mem, threads: t}).builders(),
		(&permutations{mem: mem, threads: t}).builders(),
		(&broadcasts{mem: mem, threads: t}).builders(),
		(&lookup{mem: mem, threads: t}).builders(),
		(&learnedPositions{mem: mem, threads: t, lookup: &lookup{mem: mem, threads: t}}).builders(),
		(&lossHeads{mem: mem, tile: tile, losses: &crossEntropies{mem: mem, threads: t, examples: ex}}).builders(),
		(&softmaxes{mem: mem, threads: t}).builders(),
		(&crossEntropies{mem: mem, threads: t, examples: ex}).builders(),
		(&softTargets{mem: mem, threads: t, examples: ex}).builders(),
		(&binaryTargets{mem: mem, threads: t, examples: ex}).builders(),
		(&squaredErrors{mem: mem, threads: t, examples: ex}).builders(),
	} {
		maps.Copy(all, family)
	}
	return all
}
