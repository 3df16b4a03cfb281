package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/observe/procs"
)

// labEnv tells the ssh stand-in where the hosts are: NAME=NAMESPACE=ADDRESS, comma-separated; the
// first is the launcher's.
const labEnv = "PARAGON_SOAK_LAB"

// standIn takes the place of the ssh client: it runs the command in the host's namespace. Of the
// arguments only the host and the command after -- count.
func standIn(args []string) error {
	var host, script string
	for i, a := range args {
		if a == "--" && i+2 < len(args) {
			host, script = args[i+1], strings.Join(args[i+2:], " ")
			break
		}
	}
	places := strings.Split(os.Getenv(labEnv), ",")
	from := strings.Split(places[0], "=")
	for _, p := range places[1:] {
		f := strings.Split(p, "=")
		if len(f) != 3 || f[0] != host {
			continue
		}
		ip, err := exec.LookPath("ip")
		if err != nil {
			return err
		}
		env := append(os.Environ(), fmt.Sprintf("SSH_CONNECTION=%s 50000 %s 22", from[2], f[2]))
		return syscall.Exec(ip, []string{"ip", "netns", "exec", f[1], "/bin/sh", "-c", script}, env)
	}
	return fmt.Errorf("ssh: %q is not a host of %v", host, places)
}

// A process is one of the job's, as /proc shows it.
type process struct {
	pid        int
	role, host string
}

func (p process) String() string { return fmt.Sprintf("%s %d on %s", p.role, p.pid, p.host) }

// processes finds the job's processes: those that were told of its folder and have a role.
func processes(events string) (list []process, err error) {
	found, err := procs.Find(eventsEnv, events)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if role := p.Env("DMLC_ROLE"); role != "" {
			list = append(list, process{p.PID, role, p.Env("DMLC_NODE_HOST")})
		}
	}
	return list, nil
}
