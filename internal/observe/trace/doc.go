// Package trace records what each process of a job does and when, and merges the records into one
// timeline.
//
// A Span is one piece of work of a process: the backward pass of a step, the push of one shard of a
// key, a round on a server. Each process has one Recorder. While a Capture of it is open, Add puts
// spans into the Capture's buffer. While none is open, recording costs one atomic load: callers ask
// On before they measure a span:
//
//	if r.On() {
//		begin := r.Now()
//		defer func() { r.Add(trace.Span{Kind: trace.Save, Begin: begin, End: r.Now(), Step: step}) }()
//	}
//
// A contribution is identified by its key, shard, round and worker. Worker and server know all
// four, so the push, its round on the server and the pull of the value are matched by them, without
// a trace ID on the wire:
//
//   - Span.Round of Push, Receive, Round and Apply is the number of the round, from 0.
//   - Span.Round of Pull and Answer is how many rounds had to be closed: the value is that of round
//     Span.Round-1. 0 is the first value.
//   - The worker of Push and Pull is the process that recorded them; of Receive and Answer it is
//     Span.Peer.
//   - In an asynchronous store each contribution is a round of its own: Span.Round counts those of
//     one worker, which is Span.Peer of Round and Apply, too. In a synchronous store Round and
//     Apply have no Peer.
package trace
