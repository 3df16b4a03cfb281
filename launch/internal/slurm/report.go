package slurm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxKept bounds the lines that are kept for an error.
const maxKept = 20

// A report is what srun, slurmstepd and the processes of a step print: each line goes to the user.
type report struct {
	// log gets what srun and slurmstepd print.
	log *slog.Logger

	// processes gets what the processes print.
	processes io.Writer

	// failed is closed with the first process that failed.
	failed chan struct{}

	// mu guards the fields below.
	mu sync.Mutex

	// lines are the last ones that were printed.
	lines []string

	// failure is what srun said of the first process that failed.
	failure string

	muted bool
}

// taskFailed matches srun's line about processes that failed: "srun: error: n[1-2]: tasks 0-1:
// Exited with exit code 2".
var taskFailed = regexp.MustCompile(`^srun: error: (\S+: tasks? [0-9,-]+: .*)$`)

// lacksBinding tells nothing new: that Slurm does not bind processes, which we ask for.
const lacksBinding = "srun: cluster configuration lacks support for cpu binding"

// mute keeps the rest out of the log: it is about what we do ourselves.
func (r *report) mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.muted = true
}

func (r *report) read(from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 64<<10)
	for scanner.Scan() {
		r.line(scanner.Text())
	}

	// The rest of a line that is too long is dropped.
	io.Copy(io.Discard, from)
}

func (r *report) line(text string) {
	if text = strings.TrimSpace(text); text == "" || text == lacksBinding {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.muted || slices.Contains(r.lines, text):
		// srun says some things once for each node.
	case strings.Contains(text, agentInfo):
	case strings.HasPrefix(text, "srun: error: "), strings.HasPrefix(text, "srun: fatal: "), strings.HasPrefix(text, "slurmstepd"):
		r.log.Warn(text)
	case strings.HasPrefix(text, "srun: "):
		r.log.Info(text)
	default:
		io.WriteString(r.processes, text+"\n")
	}
	if m := taskFailed.FindStringSubmatch(text); m != nil && r.failure == "" {
		r.failure = m[1]
		close(r.failed)
	}
	if len(r.lines) == maxKept {
		r.lines = r.lines[1:]
	}
	r.lines = append(r.lines, text)
}

// explain makes an error of srun's exit; nil: it still runs.
func (r *report) explain(exit error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range hints {
		for _, line := range r.lines {
			if strings.Contains(line, h.text) {
				return fmt.Errorf("srun: %s; %s", message(line), h.hint)
			}
		}
	}
	var code *exec.ExitError
	switch {
	case r.failure != "":
		return fmt.Errorf("srun: %s", r.failure)
	case !errors.As(exit, &code) || !code.Exited():
		return fmt.Errorf("srun: %w", exit)
	case len(r.lines) == 0:
		return fmt.Errorf("srun ended with exit code %d and printed nothing", code.ExitCode())
	}
	return fmt.Errorf("srun ended with exit code %d: %s", code.ExitCode(), message(r.lines[0]))
}

// agentInfo is in the lines in which agents say that all is well: on hundreds of nodes they would
// hide the rest.
const agentInfo = " INFO launch: agent: "

// message is a line without what stands before srun's messages.
func message(line string) string {
	if _, after, ok := strings.Cut(line, "error: "); ok {
		return after
	}
	return strings.TrimPrefix(line, "srun: ")
}

// hints say what to do about what srun prints. The first one that fits counts.
var hints = []struct{ text, hint string }{
	{"Did you start munged?", "munged does not run on this machine: systemctl status munge"},
	{"Munge encode failed", "munged does not answer on this machine: systemctl status munge"},
	{"Munge decode failed", "munged on this machine and on the nodes must have the same key and the same time: run `munge -n | ssh NODE unmunge`"},
	{"Unable to contact slurm controller", "slurmctld does not answer: scontrol ping"},
	{"Socket timed out", "slurmctld does not answer: scontrol ping"},
	{"Invalid job id specified", "the allocation has ended, or SLURM_JOB_ID is of another cluster: squeue --me"},
	{"Job/step already completing or completed", "the allocation is ending: squeue --me"},
	{"configuration source", "this machine has no Slurm configuration: is SLURM_CONF right?"},
	{"cannot stat file", "this machine has no Slurm configuration: is SLURM_CONF right?"},
	{"execve(): ", "the nodes must have the launch program under the same path: put it on a file system that all of them share"},
	{"couldn't chdir to", "the nodes must have the folder that launch runs in: start it on a file system that all of them share"},
	{"Communication connection failure", "a node is down (sinfo --list-reasons): leave it out with sbatch --exclude, or wait until it is back"},
	{"Requested node configuration is not available", "some nodes are no longer part of the allocation: scontrol show job $SLURM_JOB_ID"},
}
