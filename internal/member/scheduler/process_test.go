package scheduler_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// The test's binary is also the scheduler's process.
const processVariable = "PARAGON_TEST_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) == "" {
		os.Exit(m.Run())
	}
	cfg, err := cluster.FromEnv(os.Getenv)
	if err == nil {
		err = scheduler.Run(context.Background(), scheduler.Config{Config: cfg, Ready: func(addr string) { fmt.Println(addr) }})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A scheduler's process is killed, again and again, while workers meet at barriers and one joins;
// the next one takes the same port. The job ends cleanly.
func TestASchedulersProcessMayBeKilled(t *testing.T) {
	t.Run("file", func(t *testing.T) { killSchedulers(t, filepath.Join(t.TempDir(), "state")) })
	t.Run("etcd", func(t *testing.T) {
		place := scheduler.StartEtcd(t)
		if place == "" {
			t.Skip("there is no etcd on this machine")
		}
		killSchedulers(t, place)
	})
}

func killSchedulers(t *testing.T, state string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	j := &job{t: t, workers: 2, servers: 1, addr: "127.0.0.1:0", log: new(logbook), edit: func(c *cluster.Config) {
		c.State, c.HeartbeatInterval, c.Lease = "elsewhere", 200*time.Millisecond, 10*time.Second
	}}
	start := func() *exec.Cmd {
		host, port, _ := net.SplitHostPort(j.addr)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), processVariable+"=1", "DMLC_ROLE=scheduler", "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
			"DMLC_NUM_WORKER=2", "DMLC_NUM_SERVER=1", "PARAGON_JOB=test", fmt.Sprintf("PARAGON_SECRET=%x", "secret"), "PARAGON_ELASTIC=1",
			"PARAGON_STATE="+state, "PARAGON_HEARTBEAT=200ms")
		cmd.Stderr = j.log
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("the scheduler does not say where it listens: %v\n%s", err, j.log)
		}
		j.addr = line[:len(line)-1]
		return cmd
	}
	cmd := start()
	defer func() {
		cancel()
		cmd.Wait()
	}()
	w, server := j.joinAll(ctx)
	first := stepsKnown(ctx, t, j, w[0], 0)
	met, far := make(chan error, 2), make(chan bool)
	for rank, n := range w {
		go func() {
			for i := range 200 {
				if rank == 0 && i%50 == 30 {
					far <- true
				}
				if err := n.Barrier(ctx, fmt.Sprint(i)); err != nil {
					met <- err
					return
				}
				n.Recorder().Add(telemetry.Steps, 1)
			}
			met <- nil
		}()
	}
	kill := func() {
		cmd.Process.Kill()
		cmd.Wait()
		cmd = start()
	}
	for range 4 {
		// The barriers go on, wherever they are.
		<-far
		kill()
	}
	if err := errors.Join(<-met, <-met); err != nil {
		t.Fatalf("%v\n%s", err, j.log)
	}
	if last := stepsKnown(ctx, t, j, w[0], 200); last.Incarnation == first.Incarnation || last.SinceMillis < first.SinceMillis {
		t.Errorf("the first scheduler was number %d and began at %d, the last one %d at %d; want other numbers", first.Incarnation, first.SinceMillis, last.Incarnation, last.SinceMillis)
	}
	cfg := j.config(cluster.Worker, -1, "w2")
	cfg.Joining = true
	n, err := cluster.Join(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ready, arrived := make(chan error, 1), make(chan error, 1)
	go func() { ready <- n.Ready(ctx) }()
	change := pending(t, w[0])
	go func() { arrived <- w[0].Arrive(ctx, wire.Arrive{Change: change, Steps: 1, Used: 1}) }()
	kill()
	if err := errors.Join(w[1].Arrive(ctx, wire.Arrive{Change: change, Steps: 1, Used: 1}), <-arrived, <-ready); err != nil {
		t.Fatalf("%v\n%s", err, j.log)
	}
	for _, n := range append(w, n) {
		if err := n.Leave(ctx, true, ""); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(<-server, cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, j.log)
	}
}

// stepsKnown asks the scheduler until it knows that a worker has done so many steps.
func stepsKnown(ctx context.Context, t *testing.T, j *job, n *cluster.Node, want float64) control.Telemetry {
	n.Recorder().Add(telemetry.Steps, 0)
	for {
		var got control.Telemetry
		answer, err := cluster.Control(ctx, j.addr, transport.Config{Network: transport.TCP, Secret: []byte("secret")}, []byte(`{"op":"telemetry","metrics":["steps"]}`))
		if err == nil {
			err = control.DecodeAnswer(answer, &got)
		}
		for _, x := range got.Nodes {
			if x.Node != uint64(n.ID()) || len(x.Values) == 0 {
				continue
			}
			if steps := float64(x.Values[0]); steps == want {
				return got
			} else if steps > want {
				t.Errorf("the scheduler knows of %v steps, want at most %v", steps, want)
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the scheduler does not tell of %v steps: %v, %v", want, got, err)
		}
	}
}
