// Package local starts processes on the launching machine.
//
// They are children of an agent, a second process of the launch program, so that even a launcher
// that is killed leaves none of them behind.
package local

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/agent"
)

// A Machine is this machine.
type Machine struct {
	*agent.Client
	cmd  *exec.Cmd
	once sync.Once
	err  error
}

// Start starts the agent: command is the launch program and its arguments, messages of the agent go
// to log. The Machine lives until Close, or until this process ends; ctx bounds the start only.
func Start(ctx context.Context, command []string, log io.Writer) (*Machine, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = log
	// In a group of its own, where no terminal's Ctrl-C reaches it: the launcher says when it
	// ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("launch: start local agent: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("launch: start local agent: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch: start local agent: %w", err)
	}
	client, err := agent.NewClient(ctx, "localhost", in, out)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("launch: start local agent: %w", err)
	}
	return &Machine{Client: client, cmd: cmd}, nil
}

// Address is how processes here are reached by each other.
func (m *Machine) Address() string { return "127.0.0.1" }

// closeTime is how long Close waits for the agent to stop its processes; the agent's own limits add
// up to less.
const closeTime = 5 * time.Second

// LauncherAddress is empty: this is the launching machine.
func (m *Machine) LauncherAddress() string { return "" }

// Close stops all processes that still run, and the agent.
func (m *Machine) Close() error {
	m.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if m.err = m.Client.Close(ctx); m.err != nil {
			m.cmd.Process.Kill()
		}
		m.cmd.Wait()
	})
	return m.err
}
