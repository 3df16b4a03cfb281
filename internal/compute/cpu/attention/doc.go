// Package attention is scaled dot-product attention of the CPU executor, forward and backward, by
// tiles that stay in the cache: FlashAttention-2 (Dao, 2023; arXiv 2307.08691). With P the softmax
// of s over the keys that a query sees, and α the scale:
//
//	s[i,j] = α·q[i]·k[j] + bias[i,j];  o[i] = Σ over j of P[i,j]·v[j];  lse[i] = log Σ over j of exp s[i,j]
//
// It is op.Attention's definition: causal masks, lengths, packed documents, a bias, ALiBi, grouped
// queries and dropout. Kept between the passes are o and lse, and nothing of queries times keys.
//
// # How it works
//
// A panel is as many queries as the register tile has columns, 32 on AVX-512: the width of all
// tiles here. Scores lie transposed, a row for each key and a column for each query of a panel, so
// that a softmax runs down the columns, in vectors and without sums across lanes, and so that the
// tile of scores, as Tile.Gather leaves it, is the packed right operand of the next product:
//
//	Sᵀ = K·Qᵀ        rows of K, and a panel that holds Q transposed
//	Oᵀ += Vᵀ·Pᵀ      rows of V transposed, and the tile of scores itself
//	dPᵀ = V·dOᵀ      rows of V, and a panel of dO transposed
//	dQᵀ += Kᵀ·dSᵀ    rows of K transposed, and the tile of dS
//	dV += Pᵀ·dO      rows of the tile, and dO in panels
//	dK += dSᵀ·Q      rows of the tile, and Q in panels
//
// Nothing is transposed between two products. What is packed, once for each head of keys or of
// queries, is linear in their number.
//
// Forward goes, for each panel, over blocks of keys and keeps the largest score m and the sum l of
// each query. m and l are in units of log 2: exponentials are 2^x. Scores of keys that a query does
// not see are set to −∞, only in blocks that a diagonal or the end of a document cuts; blocks that
// no query of a panel sees are left out.
//
// Backward goes, for each head, over blocks of keys, and for each of those over the panels that see
// it: dK and dV of a block stay in the cache, dQ of all panels is in scratch memory. A task is a
// head of keys of one example, with its heads of queries in order. Where those are few, blocks of
// keys are dealt out to several tasks, whose parts of dQ are added in order afterwards; how many
// follows from the shape. The gradient of a bias is a pass of its own.
//
// Rows of the head that a thread is likely to have next are fetched into the cache while it computes
// one (ahead.go).
//
// All sums are float32 and made by one thread in an order that follows from the shape: the bits are
// the same on any number of threads. With a tile of pairs (see f32.PairTiles) operands of products
// are rounded to bfloat16 as they are packed, P and dS too; m, l, lse and sums are float32.
//
// A Plan allocates nothing after New. Step computes a few queries over a cache of keys, for
// sampling.
package attention
