// Package mpitest has hosts for Open MPI's mpirun in tests, which all are this machine: what mpirun
// would start over ssh starts here, under the host's name.
package mpitest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/paragon-train/paragon/internal/hosts/ssh/sshtest"
)

// Hosts are n1, n2 and so on.
type Hosts struct {
	Names     []string
	addresses []string
	dir, ssh  string
}

// marks are the variables of what runs on a host. One that has ended is in no environment.
const (
	hostMark = "MPITEST_HOST"
	dirMark  = "MPITEST_DIR"
)

// mpirun knows the hosts by addresses of no network (RFC 5737): it looks names up, and would ask
// the name server for hosts that are nowhere.
const network = "198.51.100."

// remote is what mpirun runs in place of ssh: ADDRESS COMMAND. Each host has a name and a temporary
// folder of its own. As ssh, it ends with code 255 when the other end is gone.
const remote = `#!/bin/sh
host="n${1#` + network + `}"
shift
mkdir -p "$` + dirMark + `/$host"
` + hostMark + `="$host" TMPDIR="$` + dirMark + `/$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$host" "$*" || exit 255
`

// Start makes hosts; what runs there ends with the test. It skips the test where they cannot be
// made.
func Start(t testing.TB, n int) *Hosts {
	t.Helper()
	sshtest.Cluster(t)
	sshtest.Program(t, "mpirun", "openmpi-bin")
	sshtest.Program(t, "unshare", "util-linux")
	sshtest.Program(t, "hostname", "hostname")
	if os.Getuid() != 0 {
		sshtest.Skip(t, "hosts with names of their own on one machine need root")
	}
	// The path is short, for sockets lie in the folder.
	dir, err := os.MkdirTemp("", "mpi-")
	if err != nil {
		t.Fatal(err)
	}
	h := &Hosts{dir: dir}
	t.Cleanup(func() {
		for _, pid := range h.Processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		os.RemoveAll(dir)
	})
	h.ssh = filepath.Join(dir, "remote")
	if err := os.WriteFile(h.ssh, []byte(remote), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h.Names = append(h.Names, fmt.Sprintf("n%d", i+1))
		h.addresses = append(h.addresses, fmt.Sprintf("%s%d", network, i+1))
	}
	return h
}

// Mpirun is the command that runs programs on the first hosts, as a shell reads it.
func (h *Hosts) Mpirun(first int) string {
	return fmt.Sprintf("mpirun --allow-run-as-root --mca plm_rsh_agent %s --host %s", h.ssh, strings.Join(h.addresses[:first], ","))
}

// Env are the variables with which mpirun, or the launch that runs it, must be started. A killed
// mpirun leaves files in TMPDIR.
func (h *Hosts) Env() []string { return []string{dirMark + "=" + h.dir, "TMPDIR=" + h.dir} }

// Processes are those of all hosts, and mpirun.
func (h *Hosts) Processes() (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); pid != os.Getpid() && has(pid, dirMark+"="+h.dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill ends all that runs on a host at once, mpirun's daemon first: mpirun sees that the daemon's
// connection breaks, and then that what stands for ssh ends. (In the other order mpirun takes it
// for a host that could not be started, and ends all.)
func (h *Hosts) Kill(t testing.TB, name string) {
	t.Helper()
	var daemon, others []int
	for _, pid := range h.Processes() {
		switch program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); {
		case !has(pid, hostMark+"="+name) || isShellOfDaemon(pid):
			// The daemon's shell ends by itself.
		case filepath.Base(program) == "orted":
			daemon = append(daemon, pid)
		default:
			others = append(others, pid)
		}
	}
	if len(daemon) != 1 || len(others) == 0 {
		t.Errorf("mpitest: on %s run %d daemons of mpirun and %d other processes", name, len(daemon), len(others))
	}
	for _, pid := range append(daemon, others...) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// isShellOfDaemon reports whether a process is the shell that runs mpirun's daemon.
func isShellOfDaemon(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasPrefix(b, []byte("sh\x00-c\x00")) && bytes.Contains(b, []byte(" orted "))
}

func has(pid int, variable string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return bytes.Contains(append([]byte{0}, b...), []byte("\x00"+variable+"\x00"))
}
