package kvstore

import "sync/atomic"

// callSpans are the spans of a call's current run.
type callSpans struct {
	// begun is when the first attempt began, by the Recorder's clock; 0: it is not recorded.
	// step is the step at that time.
	begun int64
	step  uint64
	// sent is when the request had been sent; 0: not known.
	sent atomic.Int64
	// note is the method value left. It is made once, because making it takes memory.
	note func()
}
