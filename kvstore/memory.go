package kvstore

import "github.com/paragon-train/paragon/internal/compute/shm"

// Float32s returns n zeros in memory that servers on this host can use in place. A PushPull of a
// gradient in it is added up where it lies, and the new value is written to outs in it by the
// servers; other memory is copied. The slice must be used whole: parts of it may share pages. It is
// garbage-collected as usual. Small slices, and systems without shared memory, get what make gives.
// The gradients and parameters of package nn's programs are such memory already.
func Float32s(n int) []float32 { return shm.Float32s(n) }
