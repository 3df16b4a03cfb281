package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// An intake takes requests from the connections, for the shell, and waits for their answers. It is
// the transport's handler, so that its methods run in many goroutines at once.
type intake struct {
	// last is the number of the last request.
	last atomic.Uint64
	// begin has all requests but those that only look at the job. These are in looks, and are
	// answered also while the journal cannot be written.
	begin chan registration
	looks chan registration
	// ended is closed when nobody takes requests any more.
	ended chan struct{}
}

// A registration is a request with the channel for its answer, which has room for it. Without a
// message it says that the sender of an earlier one is gone. Both come through one channel, so what
// a node asks after its connection broke is never taken before the news of that.
type registration struct {
	event Event
	reply chan<- wire.Message
}

// newIntake returns an intake whose queues have no room: a request waits in its own goroutine until
// the shell takes it.
func newIntake() *intake {
	return &intake{begin: make(chan registration), looks: make(chan registration), ended: make(chan struct{})}
}

// Serve implements transport.Handler.
func (in *intake) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	m := wire.New(r.Kind)
	if m == nil {
		return transport.Response{}, transport.Refuse(wire.CodeUnsupported, 0, "a message of %v is not known", r.Kind)
	}
	if err := wire.DecodeHead(m, r.Head); err != nil {
		return transport.Response{}, err
	}
	if err := admit(r.Peer, m); err != nil {
		return transport.Response{}, err
	}
	reply := make(chan wire.Message, 1)
	e := Event{At: time.Now(), Request: in.last.Add(1), Message: m}
	queue := in.begin
	if looks(m) {
		queue = in.looks
	}
	select {
	case queue <- registration{e, reply}:
	case <-ctx.Done():
		return transport.Response{}, ctx.Err()
	case <-in.ended:
		return transport.Response{}, transport.Refuse(wire.CodeUnavailable, 0, "the job has ended")
	}
	select {
	case m := <-reply:
		return transport.Response{Message: m}, nil
	case <-in.ended:
		return transport.Response{}, transport.Refuse(wire.CodeUnavailable, 0, "the job has ended")
	case <-ctx.Done():
	}
	select {
	case in.begin <- registration{event: Event{At: time.Now(), Request: e.Request}}:
	case <-in.ended:
	}
	return transport.Response{}, ctx.Err()
}

// admit refuses what a role may not ask: a certificate is for one role. Without one any node may
// ask anything.
func admit(role string, m wire.Message) error {
	if role == "" {
		return nil
	}
	_, asks := m.(*wire.Control)
	if launcher := role == identity.Launcher; launcher != asks {
		return transport.Refuse(wire.CodeUnauthorised, 0, "a %s may not ask for a %v", role, m.Kind())
	}
	if r, ok := m.(*wire.Register); ok && cluster.Role(r.Role).String() != role {
		return transport.Refuse(wire.CodeUnauthorised, 0, "a %s may not register as %v", role, cluster.Role(r.Role))
	}
	return nil
}

// Buffer implements transport.Handler: nothing that a scheduler is asked has a payload.
func (in *intake) Buffer(r *transport.Request, n int) ([]byte, error) {
	return nil, transport.Refuse(wire.CodeMalformed, 0, "a %v to the scheduler has no payload, got %d bytes", r.Kind, n)
}

// Drop implements transport.Handler.
func (in *intake) Drop(*transport.Request) {}

// end says that nobody takes requests any more.
func (in *intake) end() { close(in.ended) }

// refuseRest answers requests that come after the job's end.
func (in *intake) refuseRest(ctx context.Context, core *Core, cfg *Config) {
	for {
		select {
		case r := <-in.begin:
			switch r.event.Message.(type) {
			case nil:
				// Its sender is gone, and needs no answer.
			case *wire.Leave:
				r.reply <- &wire.Ack{}
			default:
				r.reply <- &wire.Nack{Code: wire.CodeUnavailable, Text: "the job has ended"}
			}
		case r := <-in.looks:
			r.reply <- &wire.Nack{Code: wire.CodeUnavailable, Text: "the job has ended"}
		case reply := <-cfg.Telemetry:
			reply <- core.Telemetry()
		case <-ctx.Done():
			return
		}
	}
}

// dropRest takes requests without answering them, until done.
func (in *intake) dropRest(done chan struct{}) {
	for {
		select {
		case <-in.begin:
		case <-in.looks:
		case <-done:
			return
		}
	}
}
