// Package kernels holds the CUDA kernels of internal/compute/cuda: all operations of a plan but
// convolutions and matrix products, and what moves numbers between the host's layout and the
// device's.
//
// The sources in src are one text for three compilers. clang makes kernels.ptx.gz of it (make
// generate), which is embedded and handed to the driver; NVRTC compiles the same text on a machine
// whose driver refuses the PTX; g++ -DGPU_EMU makes an emulator of it (src/emu.h), on which the
// tests run and which stands behind the fake driver of package fake.
//
//	set, err := kernels.Load(ctx)
//	err = ctx.Do(func() error {
//		return set.Add(stream, kernels.BFloat16, n, y, a, b, true)
//	})
//
// A method of Set launches the kernels of one operation on a stream and returns; it may be captured
// into a CUDA graph. Numbers that differ from step to step (a factor, a learning rate, the key of a
// dropout mask) are read from device memory, so that a captured graph stays valid.
//
// # Layouts and types
//
// Images are (N,H,W,C), channels last; a "row" is one pixel's C numbers. Weights are (K,R,S,C). C
// is right for any number and fast where it is a multiple of 8 and all addresses are multiples of
// 16, when eight numbers move at a time. Numbers are float32, bfloat16 or float16 in memory and are
// computed with in float32; statistics, parameters of normalisation, biases and the loss are
// float32 always.
//
// # Same bits
//
// Sums are made in a fixed order: per thread, then per block, then over blocks in their order. The
// number of blocks depends on the number of multiprocessors alone, so that one kind of GPU gives
// the same bits every time. Nothing adds with atomics.
//
// A Set belongs to its context's thread: its methods are called inside the context's Do. Addresses
// may be equal where a method says that a result may be written over an argument; elsewhere results
// must not overlap arguments.
package kernels
