// Package trace records what the processes of a job do and when, and makes one timeline of it.
//
// A Span is one piece of work of a process: the backward pass of a step, the push of one shard of a key, a round on a server. Each process has
// one Recorder. While a Capture of it is open, Add puts spans into the Capture's buffer; while none is, recording costs one atomic load, and
// whoever would measure a span asks On first:
//
//	if r.On() {
//		begin := r.Now()
//		defer func() { r.Add(trace.Span{Kind: trace.Save, Begin: begin, End: r.Now(), Step: step}) }()
//	}
//
// A contribution is identified by its key, shard, round and worker, which both sides know. So the spans of one worker's push, of the server's
// round and of all pulls of its value are found in one another's process without an identifier of their own: a Push of round n is in the server's
// Round n, and a Pull or the answer to a push-pull with Round n waits until that Round has closed. In an asynchronous store every push is a round of
// its own: the worker is in Peer of the server's Round, and Round counts that worker's pushes.
package trace
