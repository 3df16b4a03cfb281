// Package jobtest runs whole jobs inside one test: a scheduler and servers as their programs run
// them, over connections in memory or TCP on this machine, and places for workers.
//
//	job := jobtest.New(t, jobtest.Config{Workers: 2, Servers: 3})
//	stores := job.Stores(t, "dist_sync")          // all workers at once, rank 0 first
//	node, err := cluster.Join(ctx, job.WorkerConfig(1)) // or one worker by hand
//	job.Net.Cut("worker1", "server0")              // faults: see package faultnet; hosts are scheduler, server0, ..., worker0, ...
//
// What a job starts ends with the test. Under testing/synctest a job in memory lives on fake time,
// with all its leases.
package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/member/servernode"
	"github.com/paragon-train/paragon/internal/observe/trace"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/shardserver"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
	"github.com/paragon-train/paragon/internal/testing/joining"
	"github.com/paragon-train/paragon/kvstore"
)

// A Config says which job is run. The zero value of a field takes the default beside it.
type Config struct {
	// Workers and Servers are how many there are; 0: 1.
	Workers int
	Servers int
	// WorkersPerHost puts so many workers on each host: the first ones on host0, the next ones
	// on host1, and so on. 0: each is on its own. A network in memory knows each worker as
	// worker0, worker1, ... all the same.
	WorkersPerHost int
	// TCP: over TCP on this machine, at free ports. Without it connections are in memory.
	TCP bool
	// Over is the system's network that TCP asks for, if another than transport.TCP.
	Over transport.Network
	// Seed decides what Net decides, and is logged.
	Seed uint64

	// Secret is the job's; empty: it has none.
	Secret []byte

	// TLS gives every process a certificate.
	TLS bool
	// Heartbeat is package cluster's, if it is zero.
	Heartbeat time.Duration
	// Lease is package cluster's, if it is zero. Over TCP it is a minute: time is real there, and
	// the machine may be busy.
	Lease time.Duration
	// Start is how long the job may be forming; zero: 20 s, over TCP two minutes.
	Start time.Duration
	// Server configures the servers. Its Logger is not read.
	Server  shardserver.Config
	Elastic cluster.Elastic
	// Trace takes the spans of a worker or server; nil: nobody reads them.
	Trace func(role cluster.Role, rank int) *trace.Recorder
	// Logger gets all that is logged; nil drops it.
	Logger *slog.Logger
}

// A Job is a scheduler and servers that run, and workers that may come.
type Job struct {
	// Net connects the job's hosts, if it is in memory.
	Net *faultnet.Network

	t   testing.TB
	cfg Config
	// scheduler is the scheduler's address.
	scheduler string
	authority *identity.Authority
	running   sync.WaitGroup

	// servers are in the order of their ranks.
	servers []process

	ctx context.Context

	stopScheduler context.CancelFunc

	// mu guards errs.
	mu sync.Mutex
	// errs are the ends of processes, in their order.
	errs []error
}

// New starts scheduler and servers. They form the job when the workers come.
func New(t testing.TB, cfg Config) *Job {
	t.Helper()
	cfg.Workers, cfg.Servers = max(cfg.Workers, 1), max(cfg.Servers, 1)
	if cfg.TCP {
		cfg.Lease, cfg.Start = cmp.Or(cfg.Lease, time.Minute), cmp.Or(cfg.Start, 2*time.Minute)
	}
	cfg.Start = cmp.Or(cfg.Start, 20*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	j := &Job{t: t, cfg: cfg, scheduler: "127.0.0.1:0"}
	if !cfg.TCP {
		j.Net = faultnet.New(cfg.Seed)
		j.scheduler = "scheduler:0"
	}
	if cfg.TLS {
		var err error
		if j.authority, err = identity.NewAuthority("jobtest"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		j.running.Wait()
	})
	listens := make(chan string, 1)
	scheduling, stop := context.WithCancel(ctx)
	j.stopScheduler = stop
	failed := j.run(scheduling, func(ctx context.Context) error {
		return scheduler.Run(ctx, scheduler.Config{
			Config: j.config(cluster.Scheduler, 0),
			Ready:  func(addr string) { listens <- addr },
		})
	})
	select {
	case j.scheduler = <-listens:
	case err := <-failed:
		t.Fatalf("jobtest: scheduler: %v", err)
	}
	j.ctx, j.servers = ctx, make([]process, cfg.Servers)
	for rank := range cfg.Servers {
		j.StartServer(rank)
	}
	return j
}

// A process is one that can be ended.
type process struct {
	stop context.CancelFunc
	// host is nil but in a job in memory.
	host  *faultnet.Host
	ended <-chan struct{}
}

// StartServer starts the server of a rank, at the start or anew after it ended. One of a rank from
// the job's Servers on must have been asked for; give those ranks in their order.
func (j *Job) StartServer(rank int) {
	ctx, stop := context.WithCancel(j.ctx)
	own, sc := j.config(cluster.Server, rank), j.cfg.Server
	sc.Logger = j.cfg.Logger
	if own.Joining = rank >= j.cfg.Servers; rank == len(j.servers) {
		j.servers = append(j.servers, process{})
	}
	ended := make(chan struct{})
	p := process{stop: stop, ended: ended}
	p.host, _ = own.Network.(*faultnet.Host)
	j.servers[rank] = p
	j.run(ctx, func(ctx context.Context) error {
		defer close(ended)
		return servernode.Run(ctx, own, sc)
	})
}

// ServerEnded returns a channel that is closed when the server of a rank, as it was started last,
// has ended.
func (j *Job) ServerEnded(rank int) <-chan struct{} { return j.servers[rank].ended }

// KillServer ends a server of a job in memory as SIGKILL does: its connections are reset and it
// sends nothing more. If silent, the connections stay open, as when a host loses its power.
func (j *Job) KillServer(rank int, silent bool) {
	p := j.servers[rank]
	p.host.Kill(silent)
	p.stop()
	<-p.ended
}

// run runs one process of the job; the channel gets what it returned.
func (j *Job) run(ctx context.Context, f func(context.Context) error) chan error {
	ended := make(chan error, 1)
	j.running.Go(func() {
		err := f(ctx)
		ended <- err
		j.mu.Lock()
		defer j.mu.Unlock()
		j.errs = append(j.errs, err)
	})
	return ended
}

// config returns the Config of one process of the job.
func (j *Job) config(role cluster.Role, rank int) cluster.Config {
	names := map[cluster.Role]string{cluster.Scheduler: "scheduler", cluster.Server: fmt.Sprint("server", rank), cluster.Worker: fmt.Sprint("worker", rank)}
	c := cluster.Config{
		Role: role, Rank: rank, Scheduler: j.scheduler, NumWorkers: j.cfg.Workers, NumServers: j.cfg.Servers,
		Host: names[role], Job: "jobtest", Secret: j.cfg.Secret,
		HeartbeatInterval: j.cfg.Heartbeat, Lease: j.cfg.Lease, StartTimeout: j.cfg.Start, Elastic: j.cfg.Elastic, Logger: j.cfg.Logger,
	}
	if role == cluster.Worker && j.cfg.WorkersPerHost > 0 {
		c.Host = fmt.Sprint("host", rank/j.cfg.WorkersPerHost)
	}
	c.Identity = j.identity(role.String(), names[role])
	if j.cfg.Trace != nil {
		c.Trace = j.cfg.Trace(role, rank)
	}
	switch {
	case j.cfg.TCP:
		c.Network, c.Listen = transport.TCP, "127.0.0.1:0"
		if j.cfg.Over != nil {
			c.Network = j.cfg.Over
		}
	default:
		c.Network, c.Listen = j.Net.Host(names[role]), names[role]+":0"
	}
	return c
}

// identity is a new one for a process; nil without TLS.
func (j *Job) identity(role, name string) *identity.Identity {
	if j.authority == nil {
		return nil
	}
	id, err := j.authority.Issue(role, name)
	if err != nil {
		// The role is not known.
		panic(err)
	}
	return id
}

// WorkerConfig is the place of the worker of a rank.
func (j *Job) WorkerConfig(rank int) cluster.Config { return j.config(cluster.Worker, rank) }

// JoinerConfig is the place of a worker that joins the running job, on host worker followed by
// number. Give those numbers from the job's Workers on.
func (j *Job) JoinerConfig(number int) cluster.Config {
	c := j.config(cluster.Worker, number)
	c.Rank, c.Joining = -1, true
	return c
}

// Control asks the scheduler something in JSON, as its tools do.
func (j *Job) Control(ctx context.Context, request string) (string, error) {
	c := j.config(cluster.Worker, 0)
	network := c.Network
	if !j.cfg.TCP {
		network = j.Net.Host("tools")
	}
	tc := transport.Config{Network: network, Secret: j.cfg.Secret, Identity: j.identity(identity.Launcher, "tools")}
	answer, err := cluster.Control(ctx, j.scheduler, tc, []byte(request))
	return string(answer), err
}

// Stores joins all workers and returns their stores, rank 0 first. They are closed when t ends,
// unless they were before.
func (j *Job) Stores(t testing.TB, kind string, opts ...kvstore.Option) []kvstore.Store {
	t.Helper()
	stores := make([]kvstore.Store, j.cfg.Workers)
	errs := make([]error, j.cfg.Workers)
	var begun sync.WaitGroup
	for rank := range stores {
		begun.Go(func() {
			// The caller's options come last: they may name another logger.
			all := append([]kvstore.Option{kvstore.WithLogger(j.cfg.Logger)}, opts...)
			stores[rank], errs[rank] = joining.Join(context.Background(), j.WorkerConfig(rank), kind, all...)
		})
	}
	begun.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("jobtest: store of worker %d: %v", rank, err)
		} else {
			t.Cleanup(func() { stores[rank].Close() })
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return stores
}

// StopServer ends a server as SIGTERM would.
func (j *Job) StopServer(rank int) { j.servers[rank].stop() }

// StopScheduler ends the scheduler as SIGTERM does.
func (j *Job) StopScheduler() { j.stopScheduler() }

// Wait returns when scheduler and servers have ended by themselves, with what each of them
// returned; the test fails if they take longer than the time given.
func (j *Job) Wait(within time.Duration) []error {
	j.t.Helper()
	done := make(chan struct{})
	go func() {
		j.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
		j.t.Fatalf("jobtest: the job has not ended after %v", within)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]error(nil), j.errs...)
}
