package slurmtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A daemon is a process of the cluster itself.
type daemon struct {
	cmd *exec.Cmd
	// done is closed when the daemon has ended.
	done chan struct{}
}

// start starts a daemon. Its output goes to NAME.out.
func (c *Cluster) start(name, program string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(c.Dir, name+".out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(c.programs[program], args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(c.Env(), daemonVariable+"=1"), c.Dir, out, out
	cmd.SysProcAttr = daemonAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	d := &daemon{cmd: cmd, done: make(chan struct{})}
	go func() { cmd.Wait(); close(d.done) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[name] = d
	return nil
}

// stop ends a daemon, and returns when it is gone. False: there was none.
func (c *Cluster) stop(name string, signal syscall.Signal) bool {
	c.mu.Lock()
	d := c.running[name]
	delete(c.running, name)
	c.mu.Unlock()
	if d == nil {
		return false
	}
	d.cmd.Process.Signal(signal)
	select {
	case <-d.done:
	case <-time.After(patience):
		d.cmd.Process.Kill()
		<-d.done
	}
	return true
}

// ended names a daemon that ended by itself; empty: all run.
func (c *Cluster) ended() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, d := range c.running {
		select {
		case <-d.done:
			return name
		default:
		}
	}
	return ""
}

// stopSlurm ends slurmd on all nodes, and slurmctld.
func (c *Cluster) stopSlurm() {
	for _, node := range c.Nodes {
		c.stop(node, syscall.SIGKILL)
	}
	// The controller's state is not needed.
	c.stop("slurmctld", syscall.SIGKILL)
}

// close ends everything.
func (c *Cluster) close(t testing.TB) {
	c.stopSlurm()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left := append(c.Processes(), c.daemons("")...)
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			t.Errorf("slurmtest: processes survived SIGKILL: %v", left)
			break
		}
	}
	c.stop("munged", syscall.SIGTERM)
}

// printLogs prints what the daemons logged, for a test that failed.
func (c *Cluster) printLogs(t testing.TB) {
	files, _ := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		t.Logf("%s:\n%s", filepath.Base(file), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// freePorts finds ports that nothing listens on, below those that Linux gives to outgoing
// connections.
func freePorts(n int) (ports []int, err error) {
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		// All ports stay taken until the last one is found.
		defer l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found no %d free ports", n)
}
