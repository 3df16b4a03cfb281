// Package drv drives NVIDIA GPUs through the driver's own library, libcuda.
//
// A Driver is the open library. A Context is one GPU taken into use: it has an OS thread of its
// own, on which everything that is asked of the GPU is done. Give Do a function that makes as many
// calls as it likes; inside it a call costs what the library costs.
//
//	driver, err := drv.Open(lib)
//	ctx, err := driver.NewContext(0)
//	defer ctx.Close()
//	err = ctx.Do(func() error {
//		p, err := ctx.Malloc(1 << 20)
//		...
//		return ctx.Launch(f, grid, block, 0, stream, params)
//	})
//
// # Threads
//
// All methods of a Context and of a Thread are called inside a function given to its Do, but for
// Do, Info, NewThread, Number and Close, which any goroutine may call. A Do inside a Do of the same
// thread runs at once. A Thread of NewThread works on the same GPU and the same streams beside the
// context's own thread: one that waits for events has its own, since SynchronizeEvent blocks it.
//
// # Order and memory
//
// What takes a Stream is only asked for when the call returns, and done later, in the stream's
// order. Host memory of a copy is pinned: it comes from HostAlloc or went through HostRegister, and
// must stay as it is until the stream has passed the copy. Device memory is not cleared.
//
// # Errors
//
// An Error carries the driver's code, name and text. After some of them (ErrLost) the GPU's context
// is beyond repair: every later call in this process answers the same, and only a new process can
// use the GPU again.
package drv
