// Package cublaslt multiplies matrices in device memory with NVIDIA's library cuBLASLt. It binds
// the library at run time; nothing of it is needed to build.
//
//	h, err := cublaslt.Open(lib, ctx)                   // on the context's thread, as everything below
//	plans, err := h.Plans(cublaslt.Linear(batch, in, out, cublaslt.BFloat16)) // y = x·Wᵀ + b
//	err = plans[0].Run(stream, workspace, x, w, b, y)
//
// # Convention
//
// All matrices are row-major and packed, as everywhere in this project: A of M×K lies in memory row
// by row. The library thinks in columns, and a row-major matrix is the transpose of the
// column-major one in the same memory, so what it is asked for is
//
//	Dᵀ = op(B)ᵀ·op(A)ᵀ
//
// with the operands exchanged and nothing moved. Sums are made in float32 whatever the storage
// type, and results repeat bit for bit on one device as long as a plan runs on one stream at a
// time.
//
// # Rules for callers
//
// As in package cudnn: one thread, pointers aligned to 16 bytes, Run only enqueues and may be
// captured into a CUDA graph.
package cublaslt
