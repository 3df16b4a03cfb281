package kvstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// SetProfilerConfig says what is recorded.
func (p *profiling) SetProfilerConfig(cfg ProfilerConfig) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("kvstore: set profiler config: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy || p.running != nil {
		return errors.New("kvstore: set profiler config: a profile is running; stop it first: SetProfilerState(ctx, ProfilerStop)")
	}
	p.config = cfg
	return nil
}

// SetProfilerState begins a profile, or ends it.
func (p *profiling) SetProfilerState(ctx context.Context, state ProfilerState) error {
	if state != ProfilerRun && state != ProfilerStop {
		return fmt.Errorf("kvstore: set profiler state: got %q, want %s or %s", state, ProfilerRun, ProfilerStop)
	}
	verb := "profiler " + string(state)
	x, err := p.take(state)
	if err != nil {
		return fmt.Errorf("kvstore: %s: %w", verb, err)
	}
	if state == ProfilerStop {
		err = p.stop(ctx, verb, x)
		x = nil
	} else if err = p.run(ctx, verb, x); err != nil {
		x = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy, p.running = false, x; p.closed {
		p.dropRunning()
	}
	return err
}

// run begins to record. Nothing records if it returns an error.
func (p *profiling) run(ctx context.Context, verb string, x *profile) error {
	if p.member.joining.Load() && x.cfg.Process != ProfileWorker {
		return p.member.notYet(verb)
	}
	if !p.requests.inline && x.cfg.Process != ProfileWorker {
		m := p.member.node.Membership()
		for i := range m.Nodes {
			if n := &m.Nodes[i]; n.Role == wire.RoleServer && n.Rank >= 0 {
				x.servers = append(x.servers, trace.Node{ID: n.Node, Role: trace.Server, Rank: int(n.Rank), Host: n.Host, PID: n.PID})
			}
		}
		if err := p.eachServer(x, func(i int) error { return p.command(ctx, verb, x, i, wire.ProfileRun) }); err != nil {
			p.end(x)
			return err
		}
	}
	if p.requests.inline || x.cfg.Process != ProfileServer {
		x.capture = p.requests.trace.Open(trace.Config{Spans: x.cfg.Spans})
	}
	return nil
}

// stop ends the recording and writes the files of all processes that can be had.
func (p *profiling) stop(ctx context.Context, verb string, x *profile) error {
	// Each server ends when its request comes. Only a few answer at once, as each one's spans
	// take up to 20 MB here.
	places := make(chan struct{}, 4)
	own := make(chan error, 1)
	if x.capture != nil {
		x.capture.Close()
	}
	go func() { own <- p.writeOwn(verb, x) }()
	err := p.eachServer(x, func(i int) error {
		if err := p.command(ctx, verb, x, i, wire.ProfileStop); err != nil {
			return err
		}
		places <- struct{}{}
		defer func() { <-places }()
		n, err := p.read(ctx, verb, x, i)
		if err != nil {
			return err
		}
		return p.write(verb, x.cfg.path(trace.Server, n.Rank), n)
	})
	err = errors.Join(<-own, err)
	p.end(x)
	return err
}

// end tells the servers that nobody wants the spans any more. One that does not hear of it
// ends by itself, or with this worker's next profile.
func (p *profiling) end(x *profile) {
	ctx, cancel := context.WithTimeout(context.Background(), endProfileTimeout)
	defer cancel()
	_ = p.eachServer(x, func(i int) error { return p.command(ctx, "profiler end", x, i, wire.ProfileEnd) })
}

// endProfileTimeout is how long a server may take to hear that a profile has ended. It is in
// nobody's way if it does not.
const endProfileTimeout = leaveTimeout / 5
