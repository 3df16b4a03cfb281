package shardserver

import "github.com/paragon-train/paragon/internal/store/wire"

// claims are what a call takes of the budgets of its server and of its shard. All of them end with
// the call, whatever becomes of it.
type claims struct {
	pushing, pulling claim
	loading          loading
	// reads is where the token of a read of state goes back to; nil: the call holds none.
	reads chan struct{}
}

// push claims one of the sender's payloads at the shard, of which it may have most.
func (x *claims) push(r *request, v *membership, most int) error {
	if x.pushing = r.entry.take(v, payloads, r.origin.Node, most); !x.pushing.made() {
		return refuse(wire.CodeBusy, "%v: %d pushes of %s to %v are under way already", r.kind, most, v.describe(r.origin.Node), r.entry.cfg)
	}
	return nil
}

// pull claims one of the sender's answers from the shard, of which it may have most.
func (x *claims) pull(r *request, v *membership, most int) error {
	if x.pulling = r.entry.take(v, answers, r.origin.Node, most); !x.pulling.made() {
		return refuse(wire.CodeBusy, "%v: %d pulls of %s from %v are under way already", r.kind, most, v.describe(r.origin.Node), r.entry.cfg)
	}
	return nil
}

// load counts a payload of n bytes that no shard's quota counts. All of the server's senders
// together may have most bytes.
func (x *claims) load(kind wire.Kind, b *budget, n int, most int64) error {
	if have := b.loading.Add(int64(n)); have > most {
		b.loading.Add(-int64(n))
		return refuse(wire.CodeBusy, "%v: %d bytes of values are being received, want at most %d", kind, have, most)
	}
	x.loading = loading{&b.loading, int64(n)}
	return nil
}

// end gives back what is still claimed.
func (x *claims) end() {
	x.pushing.end()
	x.pulling.end()
	x.loading.end()
	if x.reads != nil {
		<-x.reads
		x.reads = nil
	}
}
