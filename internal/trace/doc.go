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
// A contribution is identified by its key, shard, round and worker, and both sides know them. So the spans of a push, of its round on the server and of the
// pull of the value are found in one another's process without an identifier of their own:
//
//   - Push, Receive, Round and Apply have in Round the number of the round, from 0.
//   - Pull and Answer have there how many rounds had to be closed: their value is that of Round-1. 0 is the first value.
//   - The worker is the process of Push and Pull, and the Peer of Receive and Answer.
//   - In an asynchronous store every contribution is a round of its own: Round counts those of one worker, which is the Peer of Round and Apply too.
//     In a synchronous store they have no Peer.
package trace
