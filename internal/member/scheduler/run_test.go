package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// job is one job in this process: a scheduler, and nodes that join it. Over TCP where net is nil.
type job struct {
	t       *testing.T
	net     *faultnet.Network
	workers int
	servers int
	edit    func(*cluster.Config)
	addr    string
	log     *logbook
	// failed gets the reason, as soon as there is one.
	failed chan string
	// result is that of the scheduler.
	result chan error
	stop   context.CancelCauseFunc
	// kept is nil if nothing is kept.
	kept *memory
}

// A logbook is a log that tests read.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (j *job) config(role cluster.Role, rank int, host string) cluster.Config {
	cfg := cluster.Config{Role: role, Scheduler: j.addr, NumWorkers: j.workers, NumServers: j.servers, Rank: rank, Host: host,
		Job: "test", Secret: []byte("secret"), StartTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(j.log, nil))}
	if j.net != nil {
		cfg.Network = j.net.Host(host)
	}
	if j.edit != nil {
		j.edit(&cfg)
	}
	return cfg
}

func startJob(t *testing.T, n *faultnet.Network, workers, servers int, edit func(*cluster.Config)) *job {
	j := &job{t: t, net: n, workers: workers, servers: servers, edit: edit, addr: "127.0.0.1:0", log: new(logbook), failed: make(chan string, 1), result: make(chan error, 1)}
	if n != nil {
		j.addr = "sched:9091"
	}
	if c := j.config(cluster.Scheduler, -1, "sched"); c.State != "" {
		j.kept = new(memory)
	}
	j.start()
	return j
}

// start starts the scheduler, or another one in its place.
func (j *job) start() {
	ready := make(chan string, 1)
	ctx, stop := context.WithCancelCause(j.t.Context())
	j.stop = stop
	cfg := scheduler.Config{Config: j.config(cluster.Scheduler, -1, "sched"), Ready: func(addr string) { ready <- addr },
		Report: func(line string) {
			if r, err := control.DecodeReport([]byte(line)); err != nil {
				j.t.Errorf("report %s: %v", line, err)
			} else if r.Failed != nil {
				j.failed <- r.Failed.String()
			}
		}}
	if j.kept != nil {
		cfg.Kept = j.kept
	}
	go func() { j.result <- scheduler.Run(ctx, cfg) }()
	select {
	case j.addr = <-ready:
	case err := <-j.result:
		j.t.Fatalf("scheduler: %v", err)
	}
}

// echo is the Handler of the test's servers.
type echo struct{}

func (echo) Buffer(_ *transport.Request, n int) ([]byte, error) { return make([]byte, n), nil }
func (echo) Drop(*transport.Request)                            {}
func (echo) Serve(ctx context.Context, r *transport.Request) (transport.Response, error) {
	if r.Kind == wire.KindAwaitShard {
		// The wait never ends by itself.
		<-ctx.Done()
	}
	return transport.Response{Message: &wire.Ack{Generation: 1}}, nil
}

// server runs a server until its node is done, then leaves; it returns why the node was done.
func (j *job) server(ctx context.Context, rank int, host string) error {
	cfg := j.config(cluster.Server, rank, host)
	ln, addr, err := cluster.Listen(ctx, cfg)
	if err != nil {
		return err
	}
	cfg.Addr = addr
	srv := transport.NewServer(ln, echo{}, cfg.Transport())
	defer srv.Close()
	go srv.Serve()
	node, err := cluster.Join(ctx, cfg)
	if err != nil {
		return err
	}
	<-node.Done()
	err = node.Err()
	if e := node.Leave(ctx, err == nil, "server ends"); e != nil {
		return e
	}
	return err
}

// A whole job: all join, meet, agree on a plan, talk to the servers, leave; everything ends without
// an error.
func wholeJob(t *testing.T, n *faultnet.Network) {
	const workers, servers = 3, 2
	j := startJob(t, n, workers, servers, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for rank := range servers {
		wg.Go(func() {
			if err := j.server(ctx, rank, fmt.Sprint("s", rank)); err != nil {
				t.Errorf("server %d: %v", rank, err)
			}
		})
	}
	var mu sync.Mutex
	hashes := make(map[uint64]int)
	for rank := range workers {
		wg.Go(func() {
			node, err := cluster.Join(ctx, j.config(cluster.Worker, rank, fmt.Sprint("w", rank)))
			if err != nil {
				t.Errorf("worker %d: %v", rank, err)
				return
			}
			if node.Rank() != cluster.Rank(rank) || node.Generation() != 1 || node.Role() != cluster.Worker || node.ID() == 0 {
				t.Errorf("worker %d is %v %d, node %d of generation %d", rank, node.Role(), node.Rank(), node.ID(), node.Generation())
			}
			if m := node.Membership(); len(m.Nodes) != workers+servers || m.Workers != workers || m.Servers != servers {
				t.Errorf("worker %d sees %+v", rank, m)
			}
			check := func(what string, err error) {
				if err != nil {
					t.Errorf("worker %d: %s: %v", rank, what, err)
				}
			}
			check("barrier", node.Barrier(ctx, "start"))
			for i, size := range []uint64{1000, 2_000_000} {
				plan, err := node.Declare(ctx, wire.Declare{Name: fmt.Sprint("key", i), Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: size})
				check("declare", err)
				mu.Lock()
				hashes[plan.Hash]++
				mu.Unlock()
				for _, s := range plan.Shards {
					c, addr, err := node.Server(cluster.Rank(s.Server))
					check("server", err)
					if _, err := c.Call(ctx, &wire.Push{}, &wire.Ack{}, nil, make([]byte, 4*s.Length)); err != nil {
						t.Errorf("worker %d: push to %s: %v", rank, addr, err)
					}
				}
			}
			if rank == 0 {
				check("signal", node.Signal(ctx, "loaded", "v"))
			} else {
				value, err := node.Await(ctx, "loaded")
				if check("await", err); value != "v" {
					t.Errorf("worker %d: await: got value %q, want that of the signal", rank, value)
				}
			}
			node.Progress(7, 1)
			check("barrier", node.Barrier(ctx, "end"))
			check("leave", node.Leave(ctx, true, ""))
			if err := node.Err(); !errors.Is(err, cluster.ErrClosed) {
				t.Errorf("worker %d left: Err is %v", rank, err)
			}
		})
	}
	wg.Wait()
	if err := <-j.result; err != nil {
		t.Errorf("scheduler: %v", err)
	}
	if len(hashes) != 2 {
		t.Errorf("plans differ between workers: %v", hashes)
	}
}

func TestAWholeJobOverTCP(t *testing.T) { wholeJob(t, nil) }

func TestAWholeJobInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { wholeJob(t, faultnet.New(1)) })
}

// joinAll starts the servers and returns all workers, joined. Servers' results come from the
// channel.
func (j *job) joinAll(ctx context.Context) (workers []*cluster.Node, servers chan error) {
	servers = make(chan error, j.servers)
	for rank := range j.servers {
		go func() { servers <- j.server(ctx, rank, fmt.Sprint("s", rank)) }()
	}
	workers = make([]*cluster.Node, j.workers)
	var wg sync.WaitGroup
	for rank := range workers {
		wg.Go(func() {
			var err error
			if workers[rank], err = cluster.Join(ctx, j.config(cluster.Worker, rank, fmt.Sprint("w", rank))); err != nil {
				j.t.Errorf("worker %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
	if slices.Contains(workers, nil) {
		j.t.FailNow()
	}
	return workers, servers
}

// When a worker dies every wait of every other node ends, soon, and says who it was.
func TestALostWorkerFailsTheJobForEveryone(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(j *job, n *cluster.Node)
		soon time.Duration
	}{
		{"its connections are gone", func(j *job, n *cluster.Node) { n.Close() }, 2500 * time.Millisecond},
		{"it is silent", func(j *job, n *cluster.Node) { j.net.Drop("w1", faultnet.Any) }, 10500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := startJob(t, faultnet.New(1), 2, 2, nil)
				ctx := t.Context()
				w, servers := j.joinAll(ctx)
				w[1].Progress(41, 0)
				time.Sleep(1500 * time.Millisecond)
				errs := make(map[string]chan error)
				wait := func(what string, f func() error) {
					ch := make(chan error, 1)
					errs[what] = ch
					go func() { ch <- f() }()
				}
				wait("barrier", func() error { return w[0].Barrier(ctx, "b") })
				wait("await", func() error {
					_, err := w[0].Await(ctx, "s")
					return err
				})
				wait("call", func() error {
					// As the store does, what was not answered is asked again.
					for {
						s, _, err := w[0].Server(1)
						if err == nil {
							_, err = s.Call(ctx, &wire.AwaitShard{}, &wire.Ack{}, nil)
						}
						if !errors.Is(err, transport.ErrConnection) || errors.Is(err, cluster.ErrFailed) {
							return err
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
				wait("done", func() error { <-w[0].Done(); return w[0].Err() })
				synctest.Wait()
				start := time.Now()
				c.kill(j, w[1])
				want := "cluster: the job failed: worker 1 on w1 lost: no heartbeat for "
				for what, ch := range errs {
					err := <-ch
					if !errors.Is(err, cluster.ErrFailed) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(last step 41)") {
						t.Errorf("%s: got %v, want %q", what, err, want)
					}
				}
				if d := time.Since(start); d > c.soon {
					t.Errorf("they heard of it after %v, want %v", d, c.soon)
				}
				for range 2 {
					if err := <-servers; !errors.Is(err, cluster.ErrFailed) {
						t.Errorf("server: %v", err)
					}
				}
				w[0].Leave(ctx, false, "")
				if err := <-j.result; !errors.Is(err, cluster.ErrFailed) || !strings.Contains(err.Error(), "worker 1 on w1 lost") {
					t.Errorf("scheduler: %v", err)
				}
				if reason := <-j.failed; !strings.HasPrefix(reason, "worker 1 on w1 lost: no heartbeat for ") {
					t.Errorf("Failed was told %q", reason)
				}
				w[1].Close()
			})
		})
	}
}

func TestAWorkersFailureIsEveryonesReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 2, 1, nil)
		w, servers := j.joinAll(t.Context())
		if err := w[1].Leave(t.Context(), false, "data: cifar10/train.bin ends at byte 17"); err != nil {
			t.Errorf("leave: %v", err)
		}
		<-w[0].Done()
		want := "cluster: the job failed: worker 1 on w1: data: cifar10/train.bin ends at byte 17"
		if err := w[0].Err(); err == nil || err.Error() != want {
			t.Errorf("worker 0: got %v, want %s", err, want)
		}
		if _, _, err := w[0].Server(0); !errors.Is(err, cluster.ErrFailed) {
			t.Errorf("a server's caller afterwards: %v", err)
		}
		w[0].Close()
		if err := <-servers; err == nil || err.Error() != want {
			t.Errorf("server: got %v, want %s", err, want)
		}
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "worker 1 on w1: data: cifar10") {
			t.Errorf("scheduler: %v", err)
		}
	})
}

// A process that is missing at the start is named by everyone, and in the end the job fails.
func TestAMissingProcessIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 2, 1, func(c *cluster.Config) {
			c.ExpectedHosts = map[cluster.Place]string{{Role: cluster.Worker, Rank: 1}: "d2"}
		})
		server := make(chan error, 1)
		go func() { server <- j.server(t.Context(), 0, "s0") }()
		_, err := cluster.Join(t.Context(), j.config(cluster.Worker, 0, "w0"))
		want := "still waiting for worker 1 on d2 (60 s)"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("worker: got %v, want %q", err, want)
		}
		if err := <-server; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("server: got %v, want %q", err, want)
		}
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("scheduler: got %v, want %q", err, want)
		}
		for _, s := range []string{"waiting for worker 1 on d2 (5 s)", "waiting for worker 1 on d2 (10 s)"} {
			if n := strings.Count(j.log.String(), s); n < 1 {
				t.Errorf("the log says %q %d times:\n%s", s, n, j.log)
			}
		}
	})
}

func TestABarrierSaysWhomItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 2, 1, nil)
		w, servers := j.joinAll(t.Context())
		w[1].Progress(12, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
		defer cancel()
		err := w[0].Barrier(ctx, "epoch 3")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "worker 1 on w1 (last step 12, heard from ") {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(j.log.String(), `waiting at barrier \"epoch 3\": waited 5 s for worker 1 on w1 (last step`) {
			t.Errorf("the log does not say whom it waits for:\n%s", j.log)
		}
		for _, n := range w {
			go n.Barrier(t.Context(), "epoch 4")
		}
		synctest.Wait()
		for _, n := range w {
			n.Leave(t.Context(), true, "")
		}
		if err := errors.Join(<-servers, <-j.result); err != nil {
			t.Error(err)
		}
	})
}

// The scheduler may be out of reach for a while: nobody is lost, and waits go on.
func TestABrokenConnectionToTheSchedulerIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 2, 1, nil)
		w, servers := j.joinAll(t.Context())
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- w[0].Barrier(t.Context(), "b") }()
		for range 5 {
			time.Sleep(3 * time.Second)
			j.net.Cut("sched", faultnet.Any)
			j.net.Refuse(faultnet.Any, "sched")
			time.Sleep(500 * time.Millisecond)
			j.net.Heal()
		}
		if err := w[1].Barrier(t.Context(), "b"); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, n := range w {
			if err := n.Leave(t.Context(), true, ""); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(<-servers, <-j.result); err != nil {
			t.Error(err)
		}
	})
}

// What nodes ask while the scheduler waits for its journal's disk waits in a queue. It is not taken
// for silence, neither by a lease nor by the shorter time that is left to a node whose connection
// broke.
func TestANodeIsNotLostWhileTheSchedulerWaitsForItsJournal(t *testing.T) {
	for _, takes := range []time.Duration{1200 * time.Millisecond, 2200 * time.Millisecond, 9 * time.Second, 10200 * time.Millisecond, 11 * time.Second} {
		// The Go scheduler chooses what comes first.
		for seed := range scheduler.Some(3, 8) {
			synctest.Test(t, func(t *testing.T) {
				j := startJob(t, faultnet.New(seed), 2, 1, func(c *cluster.Config) { c.State, c.Elastic.OnWorkerLoss = "memory", cluster.LossFail })
				w, servers := j.joinAll(t.Context())
				time.Sleep(time.Duration(3000+seed*70) * time.Millisecond)
				j.kept.setTakes(takes)
				go w[0].Signal(t.Context(), "news", "")
				time.Sleep(100 * time.Millisecond)
				j.kept.setTakes(0)
				j.net.Cut("sched", "w1")
				time.Sleep(takes + 15*time.Second)
				for _, n := range w {
					if err := n.Leave(t.Context(), true, ""); err != nil {
						t.Errorf("a write of %v, seed %d: %v", takes, seed, err)
					}
				}
				if err := errors.Join(<-servers, <-j.result); err != nil {
					t.Errorf("a write of %v, seed %d: %v", takes, seed, err)
				}
			})
		}
	}
}

func TestNodesGiveUpASchedulerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 1, 1, nil)
		w, servers := j.joinAll(t.Context())
		synctest.Wait()
		start := time.Now()
		j.net.Cut("sched", faultnet.Any)
		j.net.Refuse(faultnet.Any, "sched")
		<-w[0].Done()
		if err := w[0].Err(); !errors.Is(err, cluster.ErrScheduler) || time.Since(start) > 13*time.Second {
			t.Errorf("got %v after %v, want ErrScheduler after the lease of 10s", err, time.Since(start))
		}
		w[0].Close()
		if err := <-servers; !errors.Is(err, cluster.ErrScheduler) {
			t.Errorf("server: %v", err)
		}
		if err := <-j.result; !errors.Is(err, cluster.ErrFailed) {
			t.Errorf("scheduler: %v", err)
		}
	})
}

func TestAnEndedSchedulerTellsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 1, 1, nil)
		w, servers := j.joinAll(t.Context())
		j.stop(errors.New("interrupted"))
		<-w[0].Done()
		if err := w[0].Err(); !errors.Is(err, cluster.ErrFailed) || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("worker: %v", err)
		}
		w[0].Close()
		if err := <-servers; !errors.Is(err, cluster.ErrFailed) {
			t.Errorf("server: %v", err)
		}
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("scheduler: %v", err)
		}
	})
}

// Nodes that were killed never hear of the end: a scheduler that is ended waits for them a second
// at most, and does not take its own end for a failure of the job.
func TestAnEndedSchedulerDoesNotWaitForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 1, 1, nil)
		ctx, kill := context.WithCancel(t.Context())
		w, servers := j.joinAll(ctx)
		// The server has joined, too: one that gives up joining says so, and is not dead.
		synctest.Wait()
		w[0].Close()
		kill()
		// The scheduler has seen their connections end.
		synctest.Wait()
		start := time.Now()
		j.stop(errors.New("interrupted"))
		if err := <-j.result; err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("scheduler: %v", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("the scheduler ended after %v, want 1 s at most", d)
		}
		select {
		case reason := <-j.failed:
			t.Errorf("the job failed: %s", reason)
		default:
		}
		<-servers
	})
}

func TestAWrongSecretDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 1, 1, nil)
		cfg := j.config(cluster.Worker, 0, "w0")
		cfg.Secret = []byte("guess")
		if _, err := cluster.Join(t.Context(), cfg); !errors.Is(err, transport.ErrAuth) {
			t.Errorf("got %v, want ErrAuth", err)
		}
		j.stop(nil)
		<-j.result
	})
}

func TestASecondProcessOfARankIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJob(t, faultnet.New(1), 2, 1, nil)
		first := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := cluster.Join(ctx, j.config(cluster.Worker, 0, "w0")); first <- err }()
		synctest.Wait()
		_, err := cluster.Join(t.Context(), j.config(cluster.Worker, 0, "w9"))
		if err == nil || !strings.Contains(err.Error(), "worker 0 on w9: rank 0 is taken by node 1 on w0") {
			t.Errorf("got %v", err)
		}
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("first: %v", err)
		}
		j.stop(nil)
		<-j.result
	})
}

// Two jobs live on one machine, even with one port range.
func TestTwoJobsDoNotMeet(t *testing.T) {
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { wholeJob(t, nil) })
	}
	wg.Wait()
}

func TestANodeWithoutASchedulerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, log := faultnet.New(1), new(logbook)
		cfg := cluster.Config{Role: cluster.Worker, Scheduler: "sched:9091", NumWorkers: 1, NumServers: 1, Rank: -1, Network: n.Host("w"),
			StartTimeout: 30 * time.Second, SchedulerTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil))}
		start := time.Now()
		_, err := cluster.Join(t.Context(), cfg)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrConnection) || time.Since(start) != 30*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if !strings.Contains(log.String(), "waiting for the scheduler at sched:9091 (") {
			t.Errorf("the log does not say what it waits for:\n%s", log)
		}
	})
}
