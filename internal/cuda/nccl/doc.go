// Package nccl sums and copies arrays between the GPUs of one process with NVIDIA's library NCCL, over whatever connects them.
//
//	lib, err := nccl.Open(library)
//	clique, err := lib.NewClique([]int{0, 1})
//	defer clique.Close()
//	err = clique.ReduceScatter(grads, sums, n, nccl.Float32, nccl.Sum, streams)
//
// A collective is given the memory and the stream of every rank at once, since one thread asks for all of them: a call that leaves a rank out, which waits
// for ever, cannot be written. It is done when all streams have come to it. Rank i is the i-th device of NewClique.
//
// The methods of a Clique are called by one thread at a time, inside Do of a drv.Thread of any of its GPUs, and not during a capture.
package nccl
