// Package linear is the fully connected layer of the CPU executor: forward and backward.
//
//	y[b,o]  = Σ over i of x[b,i] · w[o,i]  + bias[o], and max(·, 0) of that where a ReLU follows
//	dx[b,i] = Σ over o of dy[b,o] · w[o,i]
//	dw[o,i] = Σ over b of dy[b,o] · x[b,i]
//	db[o]   = Σ over b of dy[b,o]
//
// All arrays are row-major. In small networks the weights are the largest of them, and they change
// in every step: so what a product costs besides its multiply-adds is mostly what is done to the
// weights before it.
//
// # How it works
//
// All three are calls of f32.Tile.Gather, whose left operand is rows that lie anywhere and whose
// right operand is packed in panels:
//
//   - Forward computes y transposed: the rows are those of w, read where they lie, and the panels
//     hold x transposed, 32 examples each. The tiles are turned over as they are stored, with bias
//     and ReLU. So x and y are transposed, which are small, and w is not.
//   - For dx the rows are those of dy, and the panels hold w, which has the order that a panel
//     wants: packing is a copy.
//   - For dw the rows are those of dy transposed, and the panels hold x. Tiles are stored in dw
//     itself.
//
// Backward packs dy and x and sums db in one run of the pool, and computes dx and dw together in a
// second one.
//
// Where a batch has more examples than a part of a sum (see below), dw is computed part by part: a
// part of some rows of dy and of a panel of x stays in the cache for as long as it is needed, and x
// is read once for each chunk of rows, not for each tile. dx is computed for several panels of w at
// a time where dy does not stay in the cache.
//
// With a tile of pairs (see f32.PairTiles) operands are rounded to bfloat16 on the way: rows of w a
// tile at a time, in memory of the thread that multiplies them; panels of w likewise; x and dy as
// they are packed.
//
// Where the CPU has a tile unit (AMX; see f32.Tile.Blocks), its blocks of 32×32 take the place of
// Gather's tiles: operands are pairs, rows whole steps of 32 numbers with zeros at their ends, and
// one call multiplies a block of rows by up to eight panels, whose sums pass through memory of the
// thread.
//
// A sum over many products is made of parts, which are summed apart and added up in order, so that
// its error grows with the length of a part. The tile unit's sums are made in one go: it sums the
// 32 products of a step apart and adds steps up, so that a sum of 4,608 random products is off by
// 2.4e-7 of its size and one of 65,536 by 8.1e-7 (root mean squares, against float64). Each number
// of a result is computed by one thread in an order that follows from the shape: the bits are the
// same on any number of threads.
package linear
