package trialjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/paragon-train/paragon/internal/hosts/process"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/tune/internal/nodes"
)

// outOfMemory is what programs and libraries print that have run out of memory.
var outOfMemory = regexp.MustCompile(`(?i)out of memory|cannot allocate memory|CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc|MemoryError|oom-kill`)

// verdict says how an attempt ended. err is why its process could not be run; else exit is how it
// ended.
func (t *trial) verdict(ctx context.Context, exit process.Exit, err error) error {
	told, cause := t.told(), context.Cause(ctx)
	if failed, ok := errors.AsType[*Failed](cause); ok {
		return failed
	}
	well := err == nil && exit.OK()
	switch {
	case ctx.Err() != nil && told == nil:
		// The search has given up waiting.
		return cause
	case told != nil && (well || ctx.Err() != nil):
		return told
	case well:
		return t.noMetrics()
	case err != nil:
		if failed, ok := errors.AsType[*Failed](err); ok {
			return failed
		}
		return fail(UserCode, err)
	}
	return t.failure(exit)
}

// noMetrics is why a command that ended well has reported nothing; nil if it has, or could go on
// from a report.
func (t *trial) noMetrics() error {
	if t.Restore != nil || t.joined() {
		return nil
	}
	if why := t.out.noMetrics(); why != "" {
		return fail(UserCode, errors.New(why))
	}
	return nil
}

// failure is what the end of a process means that did not end well.
func (t *trial) failure(exit process.Exit) error {
	class, why := t.blameExit(exit)
	if !t.settings.NoServers {
		switch result, err := t.readResult(); {
		case err == nil:
			class, why = t.blame(result)
		case errors.Is(err, fs.ErrNotExist):
			// launch refused to start, or was killed: it wrote no result.
			if said := t.out.errorOfLaunch(); said != "" {
				why += ": " + said
			}
		default:
			why = fmt.Sprintf("%s; its result cannot be read: %v", why, err)
		}
	}
	if class == UserCode && outOfMemory.MatchString(t.out.said()) {
		class = OutOfMemory
	}
	if class == UserCode {
		if said, by := t.workersSay(); said != "" {
			class, why = cmp.Or(by, class), why+": "+said
		}
	}
	return fail(class, errors.New(why))
}

// inOneLine joins the lines of an error of launch, each of which may begin with the program's name.
// Of a trial's error the first line is shown.
func inOneLine(text string) string {
	all := ""
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "launch: ")
		switch {
		case line == "":
		case all == "":
			all = line
		case strings.HasSuffix(all, ":"):
			all += " " + line
		default:
			all += "; " + line
		}
	}
	return all
}

// readResult reads how launch says that the job ended. There is none if launch was killed.
func (t *trial) readResult() (*control.Result, error) {
	text, err := os.ReadFile(filepath.Join(t.folder, resultFile))
	if err != nil {
		return nil, err
	}
	return control.DecodeResult(text)
}

// workersSay is what workers said went wrong, and the class of it: out of memory if any is, else
// final if any is, since the others may have failed because that one did. One whose connection
// closed before it said how it ended says no class.
func (t *trial) workersSay() (text string, class Class) {
	var all []string
	for rank := range t.workers() {
		d, ok := t.session.Ended()[rank]
		if !ok || d.Error == "" || d.Obeyed {
			continue
		}
		if len(all) < 3 {
			all = append(all, fmt.Sprintf("rank %d: %s", rank, firstLine(d.Error)))
		}
		if said := Class(d.Class); class == "" || said == OutOfMemory || said == Final && class == UserCode {
			class = said
		}
	}
	return strings.Join(all, "; "), class
}

// blameExit is the class of a process's end, and what to say of it.
func (t *trial) blameExit(exit process.Exit) (Class, string) {
	// The failure is described as launch describes a worker's.
	if exit.Final() && exit.Signal == 0 {
		f := control.Failure{Code: control.NodeFinal, Role: control.Worker, Host: nodes.LocalName,
			Cause: control.Cause{Kind: control.CauseKind(exit.Report.Cause), Exit: exit.Code, Text: exit.Report.Text}}
		if t.Grant != nil {
			f.Host = t.Grant.Parts[0].Node
		}
		return Final, inOneLine(f.String())
	}
	text := exit.String()
	if said := cmp.Or(t.out.errorOf(control.Worker, 0), t.out.last()); said != "" {
		text += ": " + said
	}
	// Nothing in a job uses SIGKILL on a process that does its work.
	if exit.Status() == 128+int(syscall.SIGKILL) {
		return NodeLost, "a process was killed: " + text
	}
	return UserCode, text
}

// blame is the class of a job's end, and what to say of it. Hosts that were lost are set aside.
func (t *trial) blame(r *control.Result) (Class, string) {
	text := fmt.Sprintf("exit %d", r.ExitCode)
	if r.Failure != nil {
		text = inOneLine(r.Failure.String())
	}
	// The text of a final failure has the program's own words.
	final := r.Failure != nil && r.Failure.Code == control.NodeFinal
	if r.Culprit != nil && !final {
		if said := cmp.Or(t.out.errorOf(r.Culprit.Role, r.Culprit.Rank), r.Culprit.LastLine); said != "" {
			text += ": " + said
		}
	}
	class := HostUnreachable
	if r.Phase != control.Starting {
		class = NodeLost
	}
	var lost []string
	for _, h := range r.LostHosts {
		t.runner.Nodes.Suspect(h.Host, errors.New(h.Reason))
		if !h.Unreached {
			class = NodeLost
		}
		lost = append(lost, "lost host "+h.Host+": "+strings.TrimPrefix(inOneLine(h.Reason), "host "+h.Host+": "))
	}
	if final {
		return Final, text
	}
	if len(lost) > 0 {
		// The text of a job that was not started has the same reasons.
		same := r.Failure != nil && r.Failure.Code == control.NotStarted
		if !same && (r.Culprit == nil || !r.Culprit.HostLost) {
			lost = append(lost, text)
		}
		return class, strings.Join(lost, "; ")
	}
	cause := control.Cause{}
	if r.Culprit != nil {
		cause = r.Culprit.Cause
	} else if r.Failure != nil {
		cause = r.Failure.Cause
	}
	if cause.Kind == control.CauseSignal && cause.Signal == int(syscall.SIGKILL) || cause.Kind == control.CauseExit && cause.Exit == 128+int(syscall.SIGKILL) {
		return NodeLost, "a process was killed: " + text
	}
	if r.Failure != nil {
		switch r.Failure.Code {
		case control.StartTimeout, control.Interrupted, control.StoppedByOthers:
			return NodeLost, text
		}
		if r.Failure.OfLoss() && (cause.Kind == control.CauseSilence || cause.Kind == control.CauseMachine) {
			return NodeLost, text
		}
	}
	return UserCode, text
}

// firstLine is a message without the stack of a panic, for an error of one line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
