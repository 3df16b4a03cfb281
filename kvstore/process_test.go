package kvstore_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/scheduler"
	"github.com/paragon-train/paragon/kvstore"
	"github.com/paragon-train/paragon/kvstore/kvstoretest"
	"github.com/paragon-train/paragon/server"
)

// The test's binary is also the program of the processes that it starts: roleVariable says which.
const roleVariable = "PARAGON_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	if err := process(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is one process of a job, told by the environment as any program is.
func process() error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg, err := cluster.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	cfg.Logger = quiet
	switch cfg.Role {
	case cluster.Scheduler:
		return scheduler.Run(ctx, scheduler.Config{Config: cfg, Ready: func(addr string) { fmt.Println(addr) }})
	case cluster.Server:
		return server.Run(ctx, server.Config{Logger: quiet})
	}
	kv, err := kvstore.Create(ctx, "dist_sync", kvstore.WithTimeout(kvstoretest.Timeout), kvstore.WithLogger(quiet))
	if err != nil {
		return err
	}
	if program := os.Getenv(normsVariable); program != "" {
		if err := measureQuadratic(ctx, kv, program); err != nil {
			return err
		}
		return kv.Close()
	}
	if os.Getenv(hostSumsVariable) != "" {
		if err := sumUntilLost(ctx, kv); err != nil {
			return err
		}
		return kv.Close()
	}
	cases := append(kvstoretest.Assigning(), kvstoretest.Doubling()...)
	for i := range cases {
		if cases[i].Name != "push then pull" || kv.NumWorkers() != 2 { // there the arrays are as large as the predecessors' tests have them
			cases[i].Edge = smallEdge()
		}
	}
	if err := kvstoretest.Work(ctx, kv, cases...); err != nil {
		return err
	}
	return kv.Close()
}

// A processJob is a job of a scheduler, servers and workers, each a process of its own.
type processJob struct {
	workers, servers int
	env              []string
	stdout           func(worker int) io.Writer // nil: none
	started          func(processes map[string]*os.Process)
	lost             string // the name of a process that started ends, such as "server 1"
}

// run runs the job and returns how it ended.
func (j processJob) run(t *testing.T) error {
	workers, servers := j.workers, j.servers
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	start := func(role string, rank int, scheduler string, stdout io.Writer) (*exec.Cmd, *bytes.Buffer) {
		host, port, err := net.SplitHostPort(scheduler)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), roleVariable+"=1", "DMLC_ROLE="+role, "DMLC_PS_ROOT_URI="+host, "DMLC_PS_ROOT_PORT="+port,
			fmt.Sprintf("DMLC_NUM_WORKER=%d", workers), fmt.Sprintf("DMLC_NUM_SERVER=%d", servers), fmt.Sprintf("PARAGON_RANK=%d", rank),
			"PARAGON_SECRET=0123456789abcdef0123456789abcdef", "DMLC_NODE_HOST=127.0.0.1", "PARAGON_LEASE=1m")
		cmd.Env = append(cmd.Env, j.env...)
		stderr := &bytes.Buffer{}
		cmd.Stderr, cmd.Stdout = stderr, stdout
		cmd.WaitDelay = 5 * time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, stderr
	}
	type process struct {
		name   string
		cmd    *exec.Cmd
		stderr *bytes.Buffer
	}
	r, w := io.Pipe()
	cmd, stderr := start("scheduler", 0, "127.0.0.1:0", w)
	all := []process{{"scheduler", cmd, stderr}}
	defer func() { // nothing is left behind, however the test ends
		cancel()
		for _, p := range all {
			p.cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the scheduler did not say where it listens: %w", err)
	}
	go io.Copy(io.Discard, r)
	scheduler := line[:len(line)-1]
	for i := range servers {
		cmd, stderr := start("server", i, scheduler, nil)
		all = append(all, process{fmt.Sprintf("server %d", i), cmd, stderr})
	}
	for i := range workers {
		var stdout io.Writer
		if j.stdout != nil {
			stdout = j.stdout(i)
		}
		cmd, stderr := start("worker", i, scheduler, stdout)
		all = append(all, process{fmt.Sprintf("worker %d", i), cmd, stderr})
	}
	if j.started != nil {
		processes := map[string]*os.Process{}
		for _, p := range all {
			processes[p.name] = p.cmd.Process
		}
		j.started(processes)
	}
	var first error
	for i := len(all) - 1; i >= 0; i-- { // workers first: they say what was wrong
		p := all[i]
		if err := p.cmd.Wait(); first == nil && p.name == j.lost && err == nil {
			first = fmt.Errorf("%s ended before it was killed", p.name)
		} else if err != nil && first == nil && p.name != j.lost {
			first = fmt.Errorf("%s: %w: %s", p.name, err, bytes.TrimSpace(p.stderr.Bytes()))
		}
	}
	w.Close()
	return first
}

// The numbers hold for jobs of real processes over TCP, and every process ends with 0.
func TestJobsOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	type size struct{ workers, servers int }
	sizes := []size{{2, 2}}
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		sizes = nil
		for _, workers := range []int{1, 2, 4, 7} {
			for _, servers := range []int{1, 2, 3} {
				sizes = append(sizes, size{workers, servers})
			}
		}
	}
	for _, x := range sizes {
		t.Run(fmt.Sprintf("workers=%d/servers=%d", x.workers, x.servers), func(t *testing.T) {
			if err := (processJob{workers: x.workers, servers: x.servers}).run(t); err != nil {
				t.Error(err)
			}
		})
	}
}
