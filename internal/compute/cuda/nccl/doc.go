// Package nccl sums and copies arrays between the GPUs of one process with NVIDIA's library NCCL,
// over whatever connects them.
//
//	lib, err := nccl.Open(library)
//	clique, err := lib.NewClique([]int{0, 1})
//	defer clique.Close()
//	err = clique.ReduceScatter(grads, sums, n, nccl.Float32, nccl.Sum, streams)
//
// A collective takes the memory and the stream of every rank in one call, from one thread. So no
// call can leave a rank out, which would hang. The collective is complete when all streams have
// executed it. Rank i is the i-th device of NewClique.
//
// The methods of a Clique are called by one thread at a time, inside Do of a drv.Thread of any of
// its GPUs, and not during a capture.
package nccl
