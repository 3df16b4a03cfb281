package slurm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// maxKept bounds the lines that are kept for an error.
const maxKept = 20

// A report is what srun, slurmstepd and the processes of a step print: each line goes to the log.
type report struct {
	log   *slog.Logger
	mu    sync.Mutex // guards the rest
	lines []string   // the last ones
	muted bool
}

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
	io.Copy(io.Discard, from) // behind a line that is too long
}

func (r *report) line(text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.muted && !slices.Contains(r.lines, text) { // srun says some things once for each node
		if strings.HasPrefix(text, "srun: ") && !strings.Contains(text, "error: ") {
			r.log.Info(text)
		} else {
			r.log.Warn(text)
		}
	}
	if len(r.lines) == maxKept {
		r.lines = r.lines[1:]
	}
	r.lines = append(r.lines, text)
}

// explain makes an error of srun's exit.
func (r *report) explain(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range hints {
		for _, line := range r.lines {
			if strings.Contains(line, h.text) {
				return fmt.Errorf("srun: %s; %s", message(line), h.hint)
			}
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Exited() {
		return fmt.Errorf("srun: %w", err)
	}
	if len(r.lines) == 0 {
		return fmt.Errorf("srun ended with exit code %d and printed nothing", exit.ExitCode())
	}
	return fmt.Errorf("srun ended with exit code %d: %s", exit.ExitCode(), message(r.lines[0]))
}

// message is a line without what stands before srun's messages.
func message(line string) string {
	if _, after, ok := strings.Cut(line, "error: "); ok {
		return after
	}
	return strings.TrimPrefix(line, "srun: ")
}

// hints say what to do about what srun prints.
var hints = []struct{ text, hint string }{}
