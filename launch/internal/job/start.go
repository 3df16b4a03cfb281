package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/hosts"
	"github.com/paragon-train/paragon/internal/identity"
	"github.com/paragon-train/paragon/internal/process"
)

// run is one job under way.
type run struct {
	cfg         Config
	id          string
	credentials []string // the variables with the secrets that all processes of the job share
	controls    []string // the variables by which the launcher asks the scheduler
	address     string   // the scheduler's
	port        string
	addr        string // both
	nodes       []*Node
	lostHosts   []control.LostHost // not reached at the start
	forgotten   int                // processes that came and went, and of which nothing is remembered
	workers     int                // numbers given to workers
	processes   uint32             // numbers given to processes
	machines    map[string]Machine // by the host's String; "" is the launching machine
	ended       chan *Node
	over        chan struct{} // closed when nobody takes from ended any more
	report      *report       // of the scheduler
	formed      *formation
	release     func()             // what Listening asked for
	unstarted   []*Node            // processes whose host was lost before they were started; the job may go on
	slots       map[string][]*Node // of each host, by the host's String: whose the GPUs of a slot are

	authority *identity.Authority // of this job's certificates; nil: without TLS
}

func newRun(cfg Config) *run {
	r := &run{
		cfg: cfg, port: "0", machines: make(map[string]Machine), formed: newFormation(), workers: len(cfg.Workers),
		slots: make(map[string][]*Node), ended: make(chan *Node), over: make(chan struct{}),
	}
	r.report = newReport(r.formed, cfg.Logger)
	var secret string
	r.id, secret = newIdentity()
	r.credentials = []string{"PARAGON_SECRET=" + secret}
	add := func(role string, rank int, host hosts.Host) {
		n := r.newNode(role, rank, host)
		n.member = role == roleWorker
		r.nodes = append(r.nodes, n)
	}
	scheduler := hosts.Local
	if cfg.SchedulerHost != nil {
		scheduler = *cfg.SchedulerHost
	}
	add(roleScheduler, 0, scheduler)
	for i, h := range cfg.Servers {
		add(roleServer, i, h)
	}
	for i, h := range cfg.Workers {
		add(roleWorker, i, h)
	}
	return r
}

// newNode is a process that is not started yet.
func (r *run) newNode(role string, rank int, host hosts.Host) *Node {
	r.processes++
	if role != roleWorker {
		host = r.limited(host)
	}
	n := &Node{Role: role, Rank: rank, Host: host.String(), host: host, process: r.processes, number: rank}
	number := len(r.nodes) // a colour of its own
	n.stdout, n.stderr = r.cfg.Output.Stdout(n.source(), number), r.cfg.Output.Stderr(n.source(), number)
	return n
}

// nodeOf is the node of a process; nil: launch did not start it, or nothing is remembered of it.
func (r *run) nodeOf(process uint32) *Node {
	for _, n := range r.nodes {
		if n.process == process {
			return n
		}
	}
	return nil
}

// dial connects to every machine of the job, each once. All errors are told, so that one attempt shows all bad hosts.
func (r *run) dial(ctx context.Context) error {
	type target struct {
		key  string
		dial func(context.Context) (Machine, error)
	}
	var targets []target
	seen := make(map[string]bool)
	use := func(h *hosts.Host) string {
		t := target{"", r.cfg.Local}
		if h != nil && r.cfg.Dial != nil {
			t = target{h.String(), func(ctx context.Context) (Machine, error) { return r.cfg.Dial(ctx, *h) }}
		}
		if !seen[t.key] {
			seen[t.key] = true
			targets = append(targets, t)
		}
		return t.key
	}
	keys := []string{use(r.cfg.SchedulerHost)}
	for _, h := range r.cfg.Servers {
		keys = append(keys, use(&h))
	}
	for _, h := range r.cfg.Workers {
		keys = append(keys, use(&h))
	}
	machines, errs := make([]Machine, len(targets)), make([]error, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() { machines[i], errs[i] = t.dial(ctx) })
	}
	all.Wait()
	for i, t := range targets {
		if errs[i] == nil {
			r.machines[t.key] = machines[i]
		} else {
			r.lostHosts = append(r.lostHosts, control.LostHost{Host: cmp.Or(t.key, hosts.Local.String()), Reason: plainText(errs[i])})
		}
	}
	for i, n := range r.nodes {
		n.machine = r.machines[keys[i]]
	}
	return errors.Join(errs...)
}

// start brings all processes up.
func (r *run) start(ctx context.Context) error {
	if r.cfg.TLS {
		var err error
		if r.authority, err = identity.NewAuthority(r.id); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	r.controls = append(slices.Clone(r.credentials), r.identity(identity.Launcher, identity.Launcher))
	for _, v := range r.cfg.Env {
		if strings.HasPrefix(v, "PARAGON_TRANSPORT=") {
			r.controls = append(r.controls, v)
		}
	}
	if err := r.dial(ctx); err != nil {
		return err
	}
	if err := r.checkAddresses(); err != nil {
		return err
	}
	scheduler := r.nodes[0]
	if r.address = r.cfg.HostIP; r.address == "" {
		var err error
		if r.address, err = SchedulerAddress(scheduler.machine, slices.Collect(maps.Values(r.machines))); err != nil {
			return err
		}
	}
	if err := r.startScheduler(ctx, scheduler); err != nil {
		return err
	}
	r.addr = net.JoinHostPort(r.address, r.port)
	if r.cfg.Listening != nil {
		var err error
		if r.release, err = r.cfg.Listening(Where{Job: r.id, Scheduler: r.addr, Credentials: r.controls}); err != nil {
			return err
		}
	}
	r.cfg.Output.Hold() // the table of who runs where comes first
	errs := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, n := range r.nodes {
		if n.Role == roleScheduler {
			continue
		}
		spec := r.spec(n)
		all.Go(func() { errs[i] = r.startNode(ctx, n, spec, nil) })
	}
	all.Wait()
	for i, n := range r.nodes {
		if errs[i] != nil && ctx.Err() == nil && lostMachine(n.machine) && r.machineKey(n) != "" && r.cfg.Elastic.attempts(n) > 0 {
			n.Exit.Code, n.Exit.Err, n.ended = 127, strings.TrimPrefix(errs[i].Error(), "launch: "), true
			r.unstarted, errs[i] = append(r.unstarted, n), nil
		}
	}
	return errors.Join(errs...)
}

// startScheduler starts the scheduler, again if it is killed before it listens and the job survives its loss. One that ends by itself says
// why, and would end again.
func (r *run) startScheduler(ctx context.Context, n *Node) error {
	for attempt := 1; ; attempt++ {
		err := r.startSchedulerOnce(ctx, n)
		if err == nil || n.handle == nil || ctx.Err() != nil || r.cfg.Elastic.State == "" || attempt > maxRestarts || lostMachine(n.machine) {
			return err
		}
		select {
		case <-n.handle.Done():
		default: // it runs, and what it says is wrong
			return err
		}
		if n.finish(); n.Exit.Signal == 0 {
			return err
		}
		n.fate = fate{code: control.FateRestarted}
		r.cfg.Logger.Warn(fmt.Sprintf("scheduler on %s ended before it listened: %s; starting it again", n.Host, n.Exit))
		again := r.newNode(roleScheduler, 0, n.host)
		again.machine = n.machine
		r.nodes[0], r.nodes = again, append(r.nodes, n) // the first one is the scheduler that the others are told of
		n, r.report = again, newReport(r.formed, r.cfg.Logger)
		if attempt > 1 {
			t := time.NewTimer(backOff(attempt-1) / 4)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
			}
		}
	}
}

// startSchedulerOnce starts the scheduler and waits until it has told its port: it listens on a free one itself, so no other
// process can take the port in between, and two jobs never meet.
func (r *run) startSchedulerOnce(ctx context.Context, n *Node) error {
	if err := r.startNode(ctx, n, r.spec(n), r.report); err != nil {
		return err
	}
	select {
	case line := <-r.report.address:
		host, port, err := net.SplitHostPort(line)
		if err != nil || port == "0" {
			return fmt.Errorf("launch: scheduler on %s reported %q, want its host:port", n.Host, line)
		}
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() && r.cfg.HostIP == "" {
			r.address = host
		}
		r.port = port
		return nil
	case <-n.handle.Done():
		return fmt.Errorf("launch: scheduler on %s ended before it listened: %s", n.Host, n.handle.Exit())
	case <-ctx.Done():
		return fmt.Errorf("launch: wait for the scheduler on %s to listen: %w", n.Host, context.Cause(ctx))
	}
}

// spec says what n is.
func (r *run) spec(n *Node) process.Spec {
	spec := process.Spec{Name: n.Name(), Env: r.environment(n), Dir: r.cfg.Dir, Sharers: r.sharers(n), CPUs: n.host.CPUs}
	if n.Role == roleWorker {
		spec.Command = r.cfg.Command
		spec.GPUs = r.gpus(n)
	} else {
		spec.Command, spec.Self = r.cfg.Role, true
	}
	if n.Role == roleScheduler {
		spec.Report = true
		if r.cfg.SchedulerHost == nil {
			spec.Dir = "" // runs where launch does
		}
	}
	return spec
}

func (r *run) startNode(ctx context.Context, n *Node, spec process.Spec, report *report) error {
	output := process.Output{Stdout: n.stdout, Stderr: n.stderr}
	if report != nil {
		output.Report = report
	}
	n.started = time.Now()
	h, err := n.machine.Start(ctx, spec, output)
	if err != nil {
		return err
	}
	n.handle, n.PID = h, h.PID()
	return nil
}

// attend hears of n's end.
func (r *run) attend(n *Node) {
	go func() {
		<-n.handle.Done() // at the latest when the machine is closed
		select {
		case r.ended <- n:
		case <-r.over:
		}
	}()
}
