package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/member/servernode"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// A job is one run of a plan.
type job struct {
	plan   Plan
	net    *faultnet.Network
	ledger *ledger
	// disk is the scheduler's.
	disk *disk
	// reported is what the launcher has reported last.
	reported control.Observed
	// over is closed when all processes have ended, or cannot be waited for any longer.
	over chan struct{}
	// begin is when all workers had begun.
	begin time.Time
	ready sync.WaitGroup
	// later waits for what faults do when they end.
	later sync.WaitGroup
	// alter, of tests of the checks, changes what is pushed.
	alter func(ctx context.Context, key string, c *contribution) []float32

	// processes is the last number that was given to a process.
	processes atomic.Uint32

	// mu guards the rest.
	mu    sync.Mutex
	nodes map[string]*node
	// all has every node that there was, also those whose place another one took.
	all   []*node
	trace bytes.Buffer
	// done has the hosts of workers that ended cleanly.
	done map[string]bool
	// tells has the examples of each share that its worker says it used.
	tells map[share][]int
	// odd has what different workers say differently.
	odd []string
}

// A share is a part of a division of an epoch.
type share struct{ epoch, division, part int }

// A node is one process of the job.
type node struct {
	name string
	// process is the number that a launcher would give it.
	process uint32
	host    *faultnet.Host
	cancel  context.CancelCauseFunc
	// told is closed when a worker gets SIGTERM.
	told  chan struct{}
	ended chan struct{}
	// err may be read once ended is closed.
	err error

	// Guarded by the job's mu.
	killed bool
	// counted says that a worker was a member.
	counted bool
}

var errKilled = errors.New("killed by the simulation")

func newJob(p Plan) *job {
	j := &job{plan: p, net: faultnet.New(p.Seed), ledger: newLedger(), disk: newDisk(p.Seed), over: make(chan struct{}), nodes: map[string]*node{}, done: map[string]bool{}, tells: map[share][]int{}}
	j.net.Delay(faultnet.Any, faultnet.Any, 10*time.Microsecond, p.Jitter)
	return j
}

// say writes a line into the trace.
func (j *job) say(who, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var t time.Duration
	if !j.begin.IsZero() {
		t = time.Since(j.begin)
	}
	fmt.Fprintf(&j.trace, "%9.4fs %-10s %s\n", t.Seconds(), who, fmt.Sprintf(format, args...))
}

// logger carries a node's log into the trace.
func (j *job) logger(name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(writer(func(b []byte) { j.say(name, "%s", bytes.TrimSpace(b)) }), &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

var _ io.Writer = writer(nil)

// start begins a process on a host; what was there before must have ended.
func (j *job) start(name string, run func(ctx context.Context, n *node) error) *node {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &node{name: name, process: j.processes.Add(1), host: j.net.Host(name), cancel: cancel, told: make(chan struct{}), ended: make(chan struct{})}
	j.mu.Lock()
	j.nodes[name] = n
	j.all = append(j.all, n)
	j.mu.Unlock()
	go func() {
		defer close(n.ended)
		n.err = run(ctx, n)
		j.say(name, "ended: %v", n.err)
	}()
	return n
}

// kill ends a process at once: it sends no leave request.
func (j *job) kill(n *node, silent bool) {
	j.mu.Lock()
	n.killed = true
	j.mu.Unlock()
	n.host.Kill(silent)
	n.cancel(errKilled)
}

func (j *job) node(name string) *node {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nodes[name]
}

// config returns the Config of a process.
func (j *job) config(n *node, role cluster.Role, rank int) cluster.Config {
	cfg := cluster.Config{
		Role: role, Rank: rank, Scheduler: schedulerAddress, NumWorkers: j.plan.Workers, NumServers: j.plan.Servers,
		Host: n.name, Job: "simulation", Process: n.process, Network: n.host, Listen: n.name + ":0",
		HeartbeatInterval: heartbeat, Lease: lease, StartTimeout: time.Minute, Logger: j.logger(n.name),
		Elastic: cluster.Elastic{Enabled: j.plan.Elastic, JoinTimeout: 20 * time.Second, RejoinTimeout: 20 * time.Second, Backups: j.plan.Backups},
	}
	if j.plan.Journal {
		// The disk keeps it. Nodes need to know no more than that it is kept.
		cfg.State = "kept"
	}
	if number, worker := strings.CutPrefix(n.name, "worker"); worker && j.plan.PerHost > 1 {
		i, _ := strconv.Atoi(number)
		cfg.Host = fmt.Sprint("host", i/j.plan.PerHost)
	}
	return cfg
}

const schedulerAddress = "scheduler:9000"

func (j *job) startScheduler() {
	j.start("scheduler", func(ctx context.Context, n *node) error {
		cfg := scheduler.Config{Config: j.config(n, cluster.Scheduler, -1)}
		if j.plan.Journal {
			cfg.Kept = j.disk.mount()
		}
		return scheduler.Run(ctx, cfg)
	})
}

func (j *job) startServer(rank int, joining bool) {
	j.start(fmt.Sprint("server", rank), func(ctx context.Context, n *node) error {
		cfg := j.config(n, cluster.Server, rank)
		cfg.Joining = joining
		return servernode.Run(ctx, cfg, shardserver.Config{})
	})
}

func (j *job) startWorker(rank int) {
	j.start(fmt.Sprint("worker", rank), func(ctx context.Context, n *node) error {
		run := j.runFit
		switch j.plan.Program {
		case Sums:
			run = j.runSums
		case Loop:
			run = j.runLoop
		}
		err := run(ctx, n, rank)
		if err == nil {
			j.mu.Lock()
			j.done[n.name] = true
			j.mu.Unlock()
			if j.plan.Launcher {
				j.later.Go(func() { j.sayLeft(n) })
			}
		}
		return err
	})
}

// sayLeft reports the workers that ended well, as a launcher does.
func (j *job) sayLeft(n *node) {
	j.mu.Lock()
	j.reported.Number++
	j.reported.Processes = append(slices.Clone(j.reported.Processes), control.ObservedProcess{Process: n.process, Role: control.Worker, Host: n.name,
		State: control.StateEnded, Cause: control.Cause{Kind: control.CauseExit}})
	slices.SortFunc(j.reported.Processes, func(a, b control.ObservedProcess) int { return cmp.Compare(a.Process, b.Process) })
	o := j.reported
	j.mu.Unlock()
	j.insist(control.Request{Op: control.OpReport, Observed: &o})
}
