package kvstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// A Profiler records what this worker, the servers, or both do from one call to another, as
// mx.profiler does in MXNet.
//
//	err := kv.SetProfilerConfig(kvstore.ProfilerConfig{Filename: "profile.json.gz", Process: kvstore.ProfileBoth})
//	err = kv.SetProfilerState(ctx, kvstore.ProfilerRun)
//	... // some steps
//	err = kv.SetProfilerState(ctx, kvstore.ProfilerStop) // the files are there
//
// The files are Chrome traces, for https://ui.perfetto.dev or chrome://tracing: pushes and pulls of
// workers, steps and their parts where the training loop reports them (worker.Fit does), and
// rounds, updates and what was received and answered of servers. `launch ctl trace` shows all
// processes in one timeline, and needs no change of the program.
//
// Each worker may profile itself. A server has one profile at a time, so that one worker asks for
// servers, such as rank 0; for another one SetProfilerState is ErrConflict. In MXNet servers write
// their files on their own hosts. Here the worker that asked writes them all, on its own: a user
// finds them in one place, and servers need neither a folder nor the right to write to one.
//
// A store within this process has one file, with the spans of its worker and its server, whatever
// Process is.
type Profiler interface {
	// SetProfilerConfig says what is recorded and where it is written. It is an error while a
	// profile runs.
	SetProfilerConfig(ProfilerConfig) error
	// SetProfilerState begins a profile, or ends it and writes its files. A server that cannot
	// be reached at the end does not keep the files of the others from being written; the error
	// names it. Close and Abort drop a profile that runs.
	SetProfilerState(ctx context.Context, state ProfilerState) error
}

// A ProfilerState is an argument of SetProfilerState.
type ProfilerState string

// The states.
const (
	ProfilerRun  ProfilerState = "run"
	ProfilerStop ProfilerState = "stop"
)

// A ProfilerProcess says which processes a profile is of.
type ProfilerProcess string

// The processes.
const (
	// ProfileWorker is this process.
	ProfileWorker ProfilerProcess = "worker"
	// ProfileServer are all servers that there are when the profile begins.
	ProfileServer ProfilerProcess = "server"
	ProfileBoth   ProfilerProcess = "both"
)

// MaxProfilerSpans is the most spans that a profile has of one process. They take 20 MB of its
// memory.
const MaxProfilerSpans = wire.MaxProfileSpans

// A ProfilerConfig configures a profile. The zero value of a field takes the default beside it.
type ProfilerConfig struct {
	// Filename is the path of the files without the rank, on this worker's host: profile.json.
	// As in MXNet, out/profile.json is written to out/rank0_profile.json by worker 0, or for
	// server 0. With ProfileBoth the servers' files are out/rank0_server_profile.json. A name
	// that ends with .gz is of a compressed file. The folder must exist.
	Filename string
	// Process is which processes are recorded: ProfileWorker.
	Process ProfilerProcess
	// Spans is how many spans there is room for in each process: MaxProfilerSpans. Later ones
	// are dropped; the file says how many.
	Spans int
}

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

func (c ProfilerConfig) withDefaults() ProfilerConfig {
	if c.Filename == "" {
		c.Filename = "profile.json"
	}
	if c.Process == "" {
		c.Process = ProfileWorker
	}
	if c.Spans == 0 {
		c.Spans = MaxProfilerSpans
	}
	return c
}

func (c ProfilerConfig) validate() error {
	switch c.Process {
	case ProfileWorker, ProfileServer, ProfileBoth:
	default:
		return fmt.Errorf("process: got %q, want %s, %s or %s", c.Process, ProfileWorker, ProfileServer, ProfileBoth)
	}
	if c.Spans < 1 || c.Spans > MaxProfilerSpans {
		return fmt.Errorf("spans: got %d, want 1 to %d", c.Spans, MaxProfilerSpans)
	}
	dir, name := filepath.Split(c.Filename)
	if name == "" || name == "." || name == ".." || strings.ContainsRune(c.Filename, 0) {
		return fmt.Errorf("file name: got %q, want the path of a file", c.Filename)
	}
	if info, err := os.Stat(filepath.Clean(dir)); err != nil {
		return fmt.Errorf("folder of %s: %w", c.Filename, err)
	} else if !info.IsDir() {
		return fmt.Errorf("folder of %s: %s is not a folder", c.Filename, filepath.Clean(dir))
	}
	return nil
}

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
