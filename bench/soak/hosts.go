package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// labEnv tells the ssh stand-in where the hosts are: NAME=NAMESPACE=ADDRESS, comma-separated; the first is the launcher's.
const labEnv = "PARAGON_SOAK_LAB"

// standIn takes the place of the ssh client: it runs the command in the host's namespace.
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

// processes finds the job's processes: those that were told of its folder and have a role.
func processes(events string) (list []process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		var pid int
		if _, err := fmt.Sscan(entry.Name(), &pid); err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // it has just ended
		}
		p := process{pid: pid}
		mine := false
		for _, v := range strings.Split(string(env), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			switch name {
			case eventsEnv:
				mine = value == events
			case "DMLC_ROLE":
				p.role = value
			case "DMLC_NODE_HOST":
				p.host = value
			}
		}
		if mine && p.role != "" {
			list = append(list, p)
		}
	}
	return list, nil
}

// usage is a process's memory in KiB and its open files.
func (p process) usage() (rss, files int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &rss); err != nil {
				return 0, 0, err
			}
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return 0, 0, err
	}
	if rss == 0 {
		return 0, 0, errors.New("it has ended")
	}
	return rss, len(fds), nil
}
