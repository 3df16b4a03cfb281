// Package cpu runs plans of package plan on the processor.
//
// New prepares everything: one kernel for each op with all its slices, one arena for the
// temporaries, the threads. Run then goes through the ops; each uses all threads and ends before
// the next begins. A run of ops of ours allocates nothing. Ops of gorgonia run by their Do, which
// allocates its result, and its numbers are copied into the arena.
//
// Ops that compute alike are a family, a type of its own that prepares their kernels: pooling,
// norms, convolutions. A family holds what its kernels need (a memory that places values, threads
// that cut work, the number of examples) and knows no other family and no Executor. families lists
// them.
//
// Kernels are those of packages f32 (vectors, batch normalisation) and conv (convolutions; a linear
// layer is a convolution of 1×1 images). Work is cut into pieces whose number depends on the shapes
// only, and sums over pieces are added in their order, so that results are the same bits for any
// number of threads.
//
// Images that the plan stores as bfloat16 (see package plan) are read and written as such by every
// kernel that may meet them; all of them compute in float32, and round once when they store
// (stored.go). What the plan joins to one type is in one type here.
//
// An Executor may be used by one goroutine at a time. Executors that share parameters and state
// must not run at the same time.
package cpu
