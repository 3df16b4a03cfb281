// Package slot runs a worker of an elastic trial in a slot of its host. The command launch uses it
// when a search starts it as a trial; programs of users do not need it.
//
// A search that moves replicas between trials gives each slot, with its processors and GPUs, to one
// worker at a time. So a worker of such a trial does not begin before the search has given it a
// slot, and the slot is free again when all processes of the worker have ended: they hold the
// connection by which it was asked for.
package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/tune/internal/remote"
)

// Exec asks the search that the environment names for a slot, and replaces this process by the
// command, bound to the slot's processors and GPUs. It returns only if that fails.
func Exec(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return errors.New("tune: slot: got no command")
	}
	path, err := exec.LookPath(command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return fmt.Errorf("tune: slot: %w", err)
	}
	held, err := remote.Hold(ctx, os.LookupEnv)
	if err != nil {
		return err
	}
	env := os.Environ()
	if len(held.CPUs) > 0 {
		// exec keeps the processors of the thread that calls it.
		runtime.LockOSThread()
		if err := affinity.Process(held.CPUs); err != nil {
			return fmt.Errorf("tune: slot: %w", err)
		}
		env = set(env, "GOMAXPROCS", strconv.Itoa(len(held.CPUs)))
	}
	if held.GPUs != nil {
		env = set(env, gpus.Variable, gpus.Visible(held.GPUs))
	}
	return fmt.Errorf("tune: slot: %s: %w", path, syscall.Exec(path, command, env))
}

// set sets a variable, which may be there.
func set(env []string, name, value string) []string {
	for i, v := range env {
		if strings.HasPrefix(v, name+"=") {
			env[i] = name + "=" + value
			return env
		}
	}
	return append(env, name+"="+value)
}
