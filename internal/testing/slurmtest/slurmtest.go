// Package slurmtest gives tests a Slurm cluster: a munged, a slurmctld and several slurmd on this
// machine, with key, sockets, ports and folders of their own. It needs no root and no service of
// the system.
//
//	cluster := slurmtest.Start(t, slurmtest.Config{})          // nodes n1 to n4; stops when the test ends
//	id := cluster.Batch(t, "#!/bin/sh\nsrun hostname\n", "--nodes=2")
//	cluster.Await(t, id, "COMPLETED")
//	cluster.Command("scancel", "--signal=USR1", "--batch", id) // an *exec.Cmd with the cluster's environment
//	cluster.KillNode(t, "n2")                                  // its slurmd, its steps and their processes
//	cluster.Processes()                                        // of jobs that still run or were left behind
//
// The nodes share this machine's file system, network and host name. Their processors are counted
// as the Config says, whatever the machine has, and nothing is bound to them. Debian's packages
// slurmctld, slurmd, slurm-client and munge are used; without them the test is skipped.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// Config says what the cluster has.
type Config struct {
	// Nodes is how many there are; 0: 4.
	Nodes int
	// CPUs is how many each node has; 0: 8.
	CPUs int
	// GPUs is how many each node has, which are no devices to compute on.
	GPUs int
	// Env has further variables of all commands, NAME=VALUE.
	Env []string
}

// A Cluster runs until the test ends. Its methods may be called together.
type Cluster struct {
	// Dir has its configuration (slurm.conf), logs and state.
	Dir string

	// Nodes are n1, n2 and so on.
	Nodes []string

	// config is the path of slurm.conf in Dir.
	config string

	env      []string
	programs map[string]string
	// mu guards running.
	mu sync.Mutex
	// running has the daemons by name: munged, slurmctld, and those of nodes.
	running map[string]*daemon
}

// patience bounds what a loaded machine may need for anything that takes some milliseconds.
const patience = 30 * time.Second

// Start starts a cluster, and waits until all its nodes are idle. It takes about half a second.
func Start(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	sshtest.Cluster(t)
	if cfg.Nodes == 0 {
		cfg.Nodes = 4
	}
	if cfg.CPUs == 0 {
		cfg.CPUs = 8
	}
	c := &Cluster{env: cfg.Env, programs: make(map[string]string), running: make(map[string]*daemon)}
	for program, debian := range map[string]string{"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge", "mungekey": "munge"} {
		c.programs[program] = sshtest.Program(t, program, debian)
	}
	for i := range cfg.Nodes {
		c.Nodes = append(c.Nodes, fmt.Sprintf("n%d", i+1))
	}
	// Paths of sockets are short.
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	// munged wants no folder above its socket that a group may write to.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.Dir, c.config = dir, filepath.Join(dir, "slurm.conf")
	t.Cleanup(func() {
		if t.Failed() {
			c.printLogs(t)
		}
		c.close(t)
		os.RemoveAll(dir)
	})
	if err := c.startMunge(); err != nil {
		t.Fatalf("slurmtest: %v", err)
	}
	for attempt := 0; ; attempt++ {
		if err = c.startSlurm(cfg); err == nil {
			return c
		}
		if attempt == 3 || !errors.Is(err, errStart) {
			t.Fatalf("slurmtest: %v", err)
		}
		// Another program took a port.
		t.Logf("slurmtest: starting again on other ports: %v", err)
		c.stopSlurm()
	}
}

var errStart = errors.New("the cluster did not start")

// startSlurm writes the configuration and starts slurmctld and all slurmd.
func (c *Cluster) startSlurm(cfg Config) error {
	ports, err := freePorts(1 + cfg.Nodes)
	if err != nil {
		return err
	}
	if err := c.writeConfig(cfg, ports); err != nil {
		return err
	}
	if err := c.start("slurmctld", "slurmctld", "-D", "-i"); err != nil {
		return err
	}
	for _, node := range c.Nodes {
		if err := c.start(node, "slurmd", "-D", "-N", node); err != nil {
			return err
		}
	}
	idle := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		out, _ := c.CommandContext(ctx, "sinfo", "--noheader", "--Node", "--format=%T").Output()
		return strings.Count(string(out), "idle\n") == len(c.Nodes)
	}
	for deadline := time.Now().Add(patience); !idle(); time.Sleep(20 * time.Millisecond) {
		if name := c.ended(); name != "" {
			return fmt.Errorf("%w: %s ended", errStart, name)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: not all of %v are idle after %s", errStart, c.Nodes, patience)
		}
	}
	return nil
}

// commonConfig is what slurm.conf says for all clusters: of the host's name, the controller's port,
// the user and the cluster's folder.
const commonConfig = `ClusterName=slurmtest
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmUser=%[3]s
SlurmdUser=%[3]s
AuthType=auth/munge
CredType=cred/munge
# A job that is requeued begins no sooner than its old credentials expire.
AuthInfo=socket=%[4]s/munge.sock,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool/%%n
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/slurmd-%%n.pid
SlurmctldLogFile=%[4]s/slurmctld.log
SlurmdLogFile=%[4]s/%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
JobRequeue=1
BatchStartTimeout=1
KillWait=2
SlurmdTimeout=5
MessageTimeout=10
ReturnToService=2
`

// writeConfig writes slurm.conf and cgroup.conf.
func (c *Cluster) writeConfig(cfg Config, ports []int) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	me, err := user.Current()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, commonConfig, host, ports[0], me.Username, c.Dir)
	gres := ""
	if cfg.GPUs > 0 {
		b.WriteString("GresTypes=gpu\n")
		gres = fmt.Sprintf(" Gres=gpu:%d", cfg.GPUs)
		if err := c.writeGPUs(cfg.GPUs); err != nil {
			return err
		}
	}
	for i, node := range c.Nodes {
		fmt.Fprintf(&b, "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d%s\n", node, host, ports[1+i], cfg.CPUs, gres)
		if err := os.MkdirAll(filepath.Join(c.Dir, "spool", node), 0o755); err != nil {
			return err
		}
	}
	fmt.Fprintf(&b, "PartitionName=all Nodes=%s Default=YES MaxTime=INFINITE State=UP\n", strings.Join(c.Nodes, ","))
	if err := os.MkdirAll(filepath.Join(c.Dir, "state"), 0o700); err != nil {
		return err
	}
	// slurmd loads a plugin for control groups also where nothing uses them; this one then
	// touches no file.
	cgroup := fmt.Sprintf("CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s/cgroup\nCgroupAutomount=no\n", c.Dir)
	if err := os.WriteFile(filepath.Join(c.Dir, "cgroup.conf"), []byte(cgroup), 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.config, []byte(b.String()), 0o644)
}

// writeGPUs makes the devices that stand for a node's GPUs: slurmd wants character devices.
func (c *Cluster) writeGPUs(n int) error {
	for i := range n {
		err := os.Symlink(os.DevNull, filepath.Join(c.Dir, fmt.Sprintf("gpu%d", i)))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			// The folder may be there from the attempt before.
			return err
		}
	}
	text := fmt.Sprintf("AutoDetect=off\nName=gpu File=%s/gpu[0-%d]\n", c.Dir, n-1)
	return os.WriteFile(filepath.Join(c.Dir, "gres.conf"), []byte(text), 0o644)
}

// startMunge makes a key and starts munged.
func (c *Cluster) startMunge() error {
	key := filepath.Join(c.Dir, "munge.key")
	if _, err := os.Stat(key); err != nil {
		if out, err := exec.Command(c.programs["mungekey"], "--create", "--keyfile="+key).CombinedOutput(); err != nil {
			return fmt.Errorf("mungekey: %w: %s", err, out)
		}
	}
	socket := filepath.Join(c.Dir, "munge.sock")
	if err := c.start("munged", "munged", "--foreground", "--key-file="+key, "--socket="+socket, "--pid-file="+filepath.Join(c.Dir, "munged.pid"),
		"--seed-file="+filepath.Join(c.Dir, "munge.seed"), "--log-file="+filepath.Join(c.Dir, "munged.log")); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		if name := c.ended(); name != "" || time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(c.Dir, "munged.out"))
			return fmt.Errorf("munged made no socket: %s", log)
		}
	}
}
