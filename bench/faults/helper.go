package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// control asks the scheduler something, from a host of the lab.
func (j *job) control(ctx context.Context, request string) error {
	out, err := j.helper(ctx, "scheduler", "control", request).Output()
	if err != nil {
		return fmt.Errorf("control %s: %w", request, err)
	}
	var done struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(out, &done); err != nil || done.Error != "" {
		return fmt.Errorf("control %s: got %s", request, out)
	}
	return nil
}

// helper is this program in another role on a host.
func (j *job) helper(ctx context.Context, host, role, argument string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	cmd := j.lab.Command(ctx, host, exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+role, roleEnv+"="+argument, "PARAGON_SECRET="+j.secret, addressEnv+"="+j.address)
	return cmd
}

// signalAll sends a signal to the newest process of each name. One that has ended gets none.
func (j *job) signalAll(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.procs {
		_ = p.cmd.Process.Signal(s)
	}
}

// device sets the network device of a host up or down.
func (j *job) device(host, state string) error {
	out, err := exec.Command("ip", "-n", j.lab.Namespace(host), "link", "set", "lab0", state).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip link set lab0 %s on %s: %w: %s", state, host, err, out)
	}
	return nil
}
