package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A profiling is a store's Profiler. At most one profile runs, and at most one call changes that.
type profiling struct {
	cfg      *settings
	requests *requests
	member   *membership

	// mu guards the fields below. It is not held while servers are asked.
	mu sync.Mutex
	// config is of the next profile.
	config ProfilerConfig
	// busy says that a call of SetProfilerState is under way, and closed that the store is.
	busy, closed bool
	running      *profile
	// begun is the number of profiles so far.
	begun uint64
}

// A profile is one that runs.
type profile struct {
	cfg ProfilerConfig
	// id is what the servers know it by.
	id uint64
	// capture is of this process; nil: it is not recorded.
	capture *trace.Capture
	// servers are those that record.
	servers []trace.Node
}

// take returns the profile to begin or to end, for the call that does so.
func (p *profiling) take(state ProfilerState) (*profile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.busy:
		return nil, errors.New("another call of SetProfilerState is in progress")
	case state == ProfilerRun && p.running != nil:
		return nil, errors.New("a profile is already running; stop it first: SetProfilerState(ctx, ProfilerStop)")
	case state == ProfilerStop && p.running == nil:
		return nil, errors.New("no profile is running; start one first: SetProfilerState(ctx, ProfilerRun)")
	}
	p.busy = true
	if state == ProfilerStop {
		return p.running, nil
	}
	p.begun++
	return &profile{cfg: p.config.withDefaults(), id: p.begun}, nil
}

// drop ends a profile whose store is closed. The servers drop theirs when this worker is no
// longer a member.
func (p *profiling) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; !p.busy {
		p.dropRunning()
	}
}

// dropRunning drops the profile that runs, if one does. The caller holds mu.
func (p *profiling) dropRunning() {
	if p.running == nil {
		return
	}
	if p.running.capture != nil {
		p.running.capture.Close()
	}
	p.running = nil
	p.cfg.logger.Warn("kvstore: the store was closed while a profile was running; the profile is dropped: call SetProfilerState with stop first", "file", p.config.Filename)
}

// eachServer calls f for all servers at once.
func (p *profiling) eachServer(x *profile, f func(i int) error) error {
	errs := make([]error, len(x.servers))
	var asking sync.WaitGroup
	for i := range x.servers {
		asking.Go(func() { errs[i] = f(i) })
	}
	asking.Wait()
	return errors.Join(errs...)
}

func (p *profiling) command(ctx context.Context, verb string, x *profile, server int, command uint8) error {
	head, answer := &wire.Profile{ID: x.id, Command: command, Spans: uint32(x.cfg.Spans)}, &wire.Ack{}
	return p.ask(ctx, verb, &x.servers[server], &answer.Generation, func(c *call) { c.request, c.origin, c.answer = head, &head.Origin, answer })
}

// ask sends a request to one server, which fill makes. A request to a server that was removed ends
// without an answer, whose generation is 0.
func (p *profiling) ask(ctx context.Context, verb string, n *trace.Node, generation *uint64, fill func(c *call)) error {
	o := newOp(p.requests, fmt.Sprintf("%s of %v", verb, n), "", 1)
	c := &o.calls[0]
	c.to.server = n.Rank
	fill(c)
	if err := o.run(ctx); err != nil {
		return err
	}
	if *generation == 0 {
		return fmt.Errorf("kvstore: %s: %w: it has left the job", o.verb, ErrUnavailable)
	}
	return nil
}
