package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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

// memory is a State in memory. While broken, writes are errors.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	broken  bool
	// takes is the time of a write.
	takes time.Duration
}

func (m *memory) Load(context.Context) (out []scheduler.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		out = append(out, scheduler.Record{Key: key, Value: m.records[key]})
	}
	return out, nil
}

func (m *memory) Write(_ context.Context, records []scheduler.Record) error {
	m.mu.Lock()
	takes := m.takes
	m.mu.Unlock()
	time.Sleep(takes) // on fake time
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return errors.New("no space left on device")
	}
	if m.records == nil {
		m.records = make(map[string][]byte)
	}
	for _, r := range records {
		m.records[r.Key] = r.Value
		if r.Value == nil {
			delete(m.records, r.Key)
		}
	}
	return nil
}

func (m *memory) setTakes(takes time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takes = takes
}

func (m *memory) setBroken(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
}

func (m *memory) Close() error { return nil }

func elastic(c *cluster.Config) {
	c.Elastic.Enabled, c.State = true, "memory"
	c.Elastic.JoinTimeout, c.Elastic.RejoinTimeout = time.Minute, time.Minute
}

// counter is a server that tells what it counted of every lost worker.
func (j *job) counter(ctx context.Context, rank int, examples uint64) error {
	cfg := j.config(cluster.Server, rank, fmt.Sprint("s", rank))
	ln, addr, err := cluster.Listen(ctx, cfg)
	if err != nil {
		return err
	}
	cfg.Addr = addr
	srv := transport.NewServer(ln, echo{}, transport.Config{Network: cfg.Network, Secret: cfg.Secret})
	defer srv.Close()
	go srv.Serve()
	node, err := cluster.Join(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		changed := node.Changed()
		for _, lost := range node.Membership().LostToCount {
			if err := node.ReportLostExamples(ctx, node.Membership().Placement, cluster.NodeID(lost), examples); err != nil && node.Err() == nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-node.Done():
			err = node.Err()
			return errors.Join(err, node.Leave(ctx, err == nil, ""))
		}
	}
}

// start starts an elastic job with one server that counted so much, and joins its workers.
func startElastic(t *testing.T, workers int, examples uint64) (j *job, w []*cluster.Node, server chan error) {
	j = startJob(t, faultnet.New(1), workers, 1, elastic)
	server = make(chan error, 1)
	go func() { server <- j.counter(t.Context(), 0, examples) }()
	w = make([]*cluster.Node, workers)
	var wg sync.WaitGroup
	for rank := range w {
		wg.Go(func() { w[rank] = j.worker(rank, fmt.Sprint("w", rank), false) })
	}
	wg.Wait()
	return j, w, server
}

func (j *job) worker(rank int, host string, joining bool) *cluster.Node {
	cfg := j.config(cluster.Worker, rank, host)
	cfg.Joining = joining
	n, err := cluster.Join(j.t.Context(), cfg)
	if err != nil {
		j.t.Errorf("worker on %s: %v", host, err)
	}
	return n
}

// control asks the scheduler.
func (j *job) control(r control.Request, answer control.Answer) {
	j.t.Helper()
	cfg := j.config(cluster.Worker, 0, "control")
	raw, err := control.Ask(j.t.Context(), func(ctx context.Context, request []byte) ([]byte, error) {
		return cluster.Control(ctx, j.addr, transport.Config{Network: cfg.Network, Secret: cfg.Secret}, request)
	}, r, answer)
	if err != nil && !errors.Is(err, control.ErrRefused) {
		j.t.Fatalf("%+v: %s: %v", r, raw, err)
	}
}

// pending waits until a node knows of a change.
func pending(t *testing.T, n *cluster.Node) uint64 {
	t.Helper()
	limit := time.After(time.Minute)
	for n.Pending() == 0 {
		changed := n.Changed()
		if n.Pending() != 0 {
			break
		}
		select {
		case <-changed:
		case <-n.Done():
			t.Fatalf("the node ended: %v", n.Err())
		case <-limit:
			t.Fatal("no change is pending after a minute")
		}
	}
	return n.Pending()
}

// arriveAll lets nodes arrive together and returns their errors.
func arriveAll(ctx context.Context, a wire.Arrive, nodes ...*cluster.Node) []error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.Arrive(ctx, a) })
	}
	wg.Wait()
	return errs
}

func leaveAll(t *testing.T, j *job, server chan error, nodes ...*cluster.Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Leave(t.Context(), true, ""); err != nil {
			t.Errorf("leave: %v", err)
		}
	}
	if err := errors.Join(<-server, <-j.result); err != nil {
		t.Error(err)
	}
}

// Two workers grow to four, one of them is removed and one is lost, and those who live finish.
func TestAJobGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		j, w, server := startElastic(t, 2, 17)
		var done control.Done
		var wg sync.WaitGroup
		for i := 2; i < 4; i++ {
			host := fmt.Sprint("w", i)
			j.control(control.Request{Op: control.OpAdd, Host: host}, &done)
			n := j.worker(-1, host, true)
			if !n.Joining() || n.Rank() != 2 || n.Membership().Workers != 2 {
				t.Errorf("worker on %s joins: joining %v, rank %d of %d", host, n.Joining(), n.Rank(), n.Membership().Workers)
			}
			w = append(w, n)
			wg.Go(func() {
				if err := n.Ready(ctx); err != nil {
					t.Errorf("ready: %v", err)
				}
			})
		}
		synctest.Wait()
		change := pending(t, w[0])
		for _, err := range arriveAll(ctx, wire.Arrive{Change: change, Steps: 5, Used: 50}, w[0], w[1]) {
			if err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		for i, n := range w {
			m := n.Membership()
			if n.Joining() || n.Pending() != 0 || n.Rank() != cluster.Rank(i) || n.Generation() != 2 || m.Workers != 4 ||
				len(m.Division.Cuts) != 1 || !slices.Equal(m.Division.Cuts[0].Used, []uint64{50, 50}) || m.Division.Steps != 5 {
				t.Errorf("worker %d: rank %d of %d in generation %d, division %+v", i, n.Rank(), m.Workers, n.Generation(), m.Division)
			}
		}
		met := make(chan error, 4)
		for _, n := range w {
			go func() { met <- n.Barrier(ctx, "all four") }()
		}
		for range w {
			if err := <-met; err != nil {
				t.Error(err)
			}
		}

		// Worker 1 is asked to leave, worker 2 dies before it has come: the others stand at
		// a barrier meanwhile.
		j.control(control.Request{Op: control.OpRemove, Host: "w1"}, &done)
		if done.Error != "" {
			t.Errorf("remove: %s", done.Error)
		}
		change = pending(t, w[1])
		w[2].Close()
		for _, n := range []*cluster.Node{w[0], w[1], w[3]} {
			go func() { met <- n.Barrier(ctx, "after the loss") }()
		}
		for range 3 {
			if err := <-met; err != nil {
				t.Error(err)
			}
		}
		// The barrier's answer may come before the news of the generation.
		for w[3].Generation() < 3 && ctx.Err() == nil {
			select {
			case <-w[3].Changed():
			case <-ctx.Done():
			}
		}
		if n := w[3]; n.Generation() != 3 || n.Rank() != 3 || n.Membership().Workers != 4 {
			t.Errorf("after the loss: rank %d of %d in generation %d, want 3 of 4 in 3", n.Rank(), n.Membership().Workers, n.Generation())
		}
		errs := arriveAll(ctx, wire.Arrive{Change: change, Steps: 9, Used: 5, Earlier: []uint64{0, 0, 10, 0}}, w[0], w[1], w[3])
		if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], cluster.ErrRemoved) {
			t.Errorf("arrive: %v, want ErrRemoved of the second alone", errs)
		}
		if m := w[3].Membership(); w[3].Rank() != 1 || m.Workers != 2 || len(m.Division.Cuts) != 2 || !slices.Equal(m.Division.Cuts[1].Used, []uint64{5, 5, 7, 5}) {
			t.Errorf("after the second change: rank %d of %d, division %+v", w[3].Rank(), m.Workers, m.Division)
		}
		if err := w[1].Leave(ctx, true, ""); err != nil {
			t.Errorf("leave: %v", err)
		}
		var events control.Events
		j.control(control.Request{Op: control.OpEvents}, &events)
		got := ""
		for _, e := range events.Events {
			got += fmt.Sprintf("%d %s %s\n", e.Number, e.Action, e.Host)
		}
		want := "1 ADD_QUEUED w2\n2 ADD_QUEUED w3\n3 ADDED w2\n4 ADDED w3\n5 REMOVAL_QUEUED w1\n6 LOST w2\n7 RANKS \n8 REMOVED w1\n"
		if got != want {
			t.Errorf("events:\n%swant\n%s", got, want)
		}
		leaveAll(t, j, server, w[0], w[3])
	})
}

// A worker that slept for longer than its lease is refused by name when it wakes, and may join
// anew.
func TestAPausedWorkerIsRefusedAndJoinsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		j, w, server := startElastic(t, 2, math.MaxUint64)
		synctest.Wait()
		j.net.Drop("w1", faultnet.Any)
		j.net.Drop(faultnet.Any, "w1")
		change := pending(t, w[0])
		if err := w[0].Arrive(ctx, wire.Arrive{Change: change, Steps: 3, Used: 3}); err != nil {
			t.Fatal(err)
		}
		j.net.Heal()
		j.net.Cut("w1", faultnet.Any)
		<-w[1].Done()
		if err := w[1].Err(); !errors.Is(err, cluster.ErrLost) || !strings.Contains(err.Error(), "(worker 1 on w1) was declared lost") {
			t.Errorf("the worker that slept: got %v, want ErrLost with its name", err)
		}
		w[1].Close()
		again := j.worker(-1, "w1", true)
		ready := make(chan error, 1)
		go func() { ready <- again.Ready(ctx) }()
		change = pending(t, w[0])
		if err := errors.Join(w[0].Arrive(ctx, wire.Arrive{Change: change, Steps: 5, Used: 2}), <-ready); err != nil {
			t.Error(err)
		}
		if again.Rank() != 1 || again.ID() == w[1].ID() {
			t.Errorf("it is node %d of rank %d, was node %d", again.ID(), again.Rank(), w[1].ID())
		}
		leaveAll(t, j, server, w[0], again)
	})
}

// The host of a joining worker may be removed before it counts.
func TestAJoinerIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, w, server := startElastic(t, 1, 0)
		n := j.worker(-1, "w9", true)
		ready := make(chan error, 1)
		go func() { ready <- n.Ready(t.Context()) }()
		synctest.Wait()
		var done control.Done
		j.control(control.Request{Op: control.OpRemove, Host: "w9"}, &done)
		if err := <-ready; !errors.Is(err, cluster.ErrRemoved) || done.Error != "" {
			t.Errorf("ready: got %v and %q, want ErrRemoved", err, done.Error)
		}
		n.Leave(t.Context(), true, "")
		leaveAll(t, j, server, w[0])
	})
}

// The scheduler is killed and started again, in the middle of a pending change too: training goes
// on, and the change is made.
func TestASchedulerGoesOnWhereAnotherEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		j, w, server := startElastic(t, 2, 4)
		plan, err := w[0].Declare(ctx, wire.Declare{Name: "a", Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 10})
		if err != nil {
			t.Fatal(err)
		}
		if err := w[0].Signal(ctx, "before", "v"); err != nil {
			t.Fatal(err)
		}
		restart := func(away time.Duration) {
			j.stop(scheduler.ErrHandOver)
			if err := <-j.result; !errors.Is(err, scheduler.ErrHandOver) {
				t.Fatalf("scheduler: %v", err)
			}
			time.Sleep(away)
			j.start()
		}
		barrier := make(chan error, 1)
		go func() { barrier <- w[0].Barrier(ctx, "over a restart") }()
		synctest.Wait()
		restart(time.Minute)
		value, err := w[1].Await(ctx, "before")
		if err := errors.Join(w[1].Barrier(ctx, "over a restart"), <-barrier, err); err != nil || value != "v" {
			t.Errorf("after a restart: the signal of before has value %q, want that it was given; %v", value, err)
		}
		again, err := w[1].Declare(ctx, wire.Declare{Name: "a", Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: 10})
		if err != nil || again.Hash != plan.Hash {
			t.Errorf("the plan after the restart: %+v, %v; before: %+v", again, err, plan)
		}

		n := j.worker(-1, "w2", true)
		ready, first := make(chan error, 1), make(chan error, 1)
		go func() { ready <- n.Ready(ctx) }()
		change := pending(t, w[0])
		go func() { first <- w[0].Arrive(ctx, wire.Arrive{Change: change, Steps: 7, Used: 7}) }()
		synctest.Wait()
		restart(30 * time.Second)
		if err := errors.Join(w[1].Arrive(ctx, wire.Arrive{Change: change, Steps: 7, Used: 7}), <-first, <-ready); err != nil {
			t.Error(err)
		}
		if n.Rank() != 2 || w[1].Generation() != 2 {
			t.Errorf("rank %d, generation %d, want 2 and 2", n.Rank(), w[1].Generation())
		}

		// While nothing can be kept nobody is told anything, and nobody is lost for it.
		j.kept.setBroken(true)
		go func() { barrier <- n.Barrier(ctx, "disk full") }()
		go w[0].Barrier(ctx, "disk full")
		go w[1].Barrier(ctx, "disk full")
		time.Sleep(2 * time.Minute)
		select {
		case err := <-barrier:
			t.Errorf("a barrier was answered that was not kept: %v", err)
		default:
		}
		j.kept.setBroken(false)
		if err := <-barrier; err != nil {
			t.Error(err)
		}
		if s := j.log.String(); !strings.Contains(s, "training goes on meanwhile") || !strings.Contains(s, "no space left on device") {
			t.Errorf("the log does not explain the waits:\n%s", s)
		}
		// It is said at once, then 5 s, 15 s, 35 s and 75 s later, and when it is over.
		if s := j.log.String(); strings.Count(s, "journal write failed") != 5 || !strings.Contains(s, "attempts=76") || !strings.Contains(s, "journal writes succeed again") {
			t.Errorf("the log says %d times that the journal cannot be written, want 5, and then the end:\n%s", strings.Count(s, "journal write failed"), s)
		}
		leaveAll(t, j, server, w[0], w[1], n)
	})
}

// Who looks at a job whose journal cannot be written gets an answer at once, which says so. Nothing
// else is answered, and nothing is lost for it.
func TestLooksAreAnsweredWhileTheJournalCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, w, server := startElastic(t, 2, 4)
		look := func(op string, answer control.Answer) (took time.Duration) {
			t.Helper()
			begin := time.Now()
			j.control(control.Request{Op: op}, answer)
			return time.Since(begin)
		}
		var before, status, after control.Status
		if look(control.OpStatus, &before); before.Journal != "" {
			t.Errorf("the journal can be written, and the status says %q", before.Journal)
		}
		j.kept.setBroken(true)
		barrier := make(chan error, 2)
		for _, n := range w {
			go func() { barrier <- n.Barrier(t.Context(), "disk full") }()
		}
		time.Sleep(12 * time.Second)
		if took := look(control.OpStatus, &status); took > time.Second {
			t.Errorf("the status came after %v, want it at once", took)
		}
		if want := "the scheduler has not been able to write its journal for 12s: no space left on device"; !strings.HasPrefix(status.Journal, want) || status.Workers != 2 {
			t.Errorf("got %q and %d workers, want %q and 2", status.Journal, status.Workers, want)
		}
		var why control.Why
		look(control.OpWhy, &why)
		if len(why.Waits) == 0 || why.Waits[0].At != "the scheduler's journal" || !strings.Contains(why.Waits[0].For, "no space left on device") {
			t.Errorf("why has %+v, want the wait for the journal first", why.Waits)
		}
		look(control.OpTelemetry, &control.Telemetry{})
		select {
		case err := <-barrier:
			t.Errorf("a barrier was answered that was not kept: %v", err)
		default:
		}
		j.kept.setBroken(false)
		if err := errors.Join(<-barrier, <-barrier); err != nil {
			t.Error(err)
		}
		if look(control.OpStatus, &after); after.Journal != "" || after.Phase != before.Phase || after.Generation != before.Generation {
			t.Errorf("afterwards: %q, phase %s, generation %d; want none, %s and %d", after.Journal, after.Phase, after.Generation, before.Phase, before.Generation)
		}
		leaveAll(t, j, server, w[0], w[1])
	})
}

// A worker that dies while the scheduler is away is lost a lease after the scheduler is back.
func TestALossWhileTheSchedulerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, w, server := startElastic(t, 2, 4)
		synctest.Wait()
		j.stop(scheduler.ErrHandOver)
		<-j.result
		w[1].Close()
		time.Sleep(time.Minute)
		start := time.Now()
		j.start()
		change := pending(t, w[0])
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("the loss was found after %v, want the lease of 10s", took)
		}
		if err := w[0].Arrive(t.Context(), wire.Arrive{Change: change, Steps: 1}); err != nil {
			t.Error(err)
		}
		if used := w[0].Membership().Division.Cuts[0].Used; !slices.Equal(used, []uint64{0, 4}) {
			t.Errorf("used %d, want 0 and 4", used)
		}
		leaveAll(t, j, server, w[0])
	})
}

// Workers whose work ends while the scheduler is away wait for it, so that the job ends cleanly.
func TestWorkersLeaveWhileTheSchedulerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, w, server := startElastic(t, 2, 4)
		synctest.Wait()
		j.stop(scheduler.ErrHandOver)
		<-j.result
		left := make(chan error, 2)
		for _, n := range w {
			go func() { left <- n.Leave(t.Context(), true, "") }()
		}
		time.Sleep(time.Minute)
		j.start()
		if err := errors.Join(<-left, <-left, <-server, <-j.result); err != nil {
			t.Error(err)
		}
	})
}
