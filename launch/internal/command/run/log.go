package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/command/options"
)

// launcherRole is the role of launch in its JSON lines.
const launcherRole = "launcher"

// runLogged is runOptions. Where the log is JSON, it has the error, too.
func runLogged(ctx context.Context, o *options.Options, stdout, stderr io.Writer) error {
	if o.Output.LogFormat != joblog.JSON {
		return runOptions(ctx, o, stdout, stderr)
	}
	command.NewLogger(stderr, o.Output.LogFormat, launcherRole)
	err := runOptions(ctx, o, stdout, stderr)
	var exit command.ExitError
	var usage command.UsageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	slog.Error(err.Error())
	return command.ExitError(1)
}

// agentLines makes lines of a JSON log of those of an agent, which are text.
type agentLines struct {
	log  *slog.Logger
	rest []byte
}

// Write implements io.Writer for one goroutine.
func (a *agentLines) Write(p []byte) (int, error) {
	a.rest = append(a.rest, p...)
	for {
		line, rest, found := bytes.Cut(a.rest, []byte("\n"))
		if !found && len(line) < maxAgentLine {
			return len(p), nil
		}
		a.log.Warn("agent: " + string(line))
		a.rest = rest
	}
}

// maxAgentLine bounds what is held back of a line.
const maxAgentLine = 64 << 10
