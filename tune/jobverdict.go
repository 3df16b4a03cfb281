package tune

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
)

// outOfMemory is what programs say that ran out of memory.
var outOfMemory = regexp.MustCompile(`(?i)out of memory|cannot allocate memory|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc|MemoryError|oom-kill`)

// launchGuess is what launch says of every process that was killed, which is no sign.
const launchGuess = "may have run out of memory"

// hostLost is what launch says of a host that it does not reach.
var hostLost = regexp.MustCompile(`connection to (\S+) lost|(\S+): connection to the agent lost`)

// verdict says how an attempt ended whose processes have ended with err.
func (t *jobTrial) verdict(ctx context.Context, err error) error {
	told := t.told()
	cause := context.Cause(ctx)
	if failed, ok := errors.AsType[*TrialError](cause); ok {
		return failed
	}
	if ctx.Err() != nil && told == nil {
		return cause // the search ends, or has given up waiting
	}
	var failures []string
	class := Failure("")
	for rank := range t.workers() {
		if d, ok := t.session.Ended()[rank]; ok && d.Error != "" && !d.Obeyed {
			failures = append(failures, fmt.Sprintf("rank %d: %s", rank, d.Error))
			if class == "" || d.Class == string(OutOfMemory) {
				class = Failure(d.Class)
			}
		}
	}
	said := t.out.said.String()
	switch {
	case told != nil && (err == nil || ctx.Err() != nil):
		return told // it has done what it was told
	case err == nil:
		return nil
	}
	if lost := hostLost.FindStringSubmatch(said); lost != nil {
		host := lost[1] + lost[2]
		t.jobs.suspect(host)
		return Fail(NodeLost, fmt.Errorf("connection to %s lost: %s", host, t.lastWords()))
	}
	if ranOutOfMemory(said) {
		return Fail(OutOfMemory, fmt.Errorf("%w: %s", err, t.lastWords()))
	}
	if ended, ok := errors.AsType[*exitError](err); ok && ended.exit.Status() == 128+int(syscall.SIGKILL) {
		return Fail(NodeLost, fmt.Errorf("a process was killed: %w: %s", err, t.lastWords()))
	}
	if class == "" {
		class = UserCode
	}
	words := t.lastWords()
	if len(failures) > 0 {
		words = strings.Join(failures[:min(len(failures), 3)], "; ")
	}
	return Fail(class, fmt.Errorf("%w: %s", err, words))
}

// ranOutOfMemory looks through what the programs said. Launch's own lines do not count: of a process that was killed they say that it
// may have been for want of memory.
func ranOutOfMemory(said string) bool {
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "launch: ") && outOfMemory.MatchString(line) {
			return true
		}
	}
	return false
}

// lastWords is launch's last line, which says what went wrong, or the program's last error.
func (t *jobTrial) lastWords() string {
	said := t.out.erred.String()
	if strings.TrimSpace(said) == "" {
		said = t.out.said.String()
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "launch: ") {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}
