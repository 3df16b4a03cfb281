package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/logline"
)

const logFormatFlag = "log-format"

// newLogFormatFlag is the flag of commands that log.
func newLogFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: logFormatFlag, Usage: "write the log as text, or as json: one JSON object a line on the standard error, with job, role, rank, process and event",
		Value: string(joblog.Text), EnvVars: []string{joblog.Variable}}
}

func readLogFormat(c *cli.Context) (joblog.Format, error) {
	f, err := joblog.ParseFormat(c.String(logFormatFlag))
	if err != nil {
		return "", usagef("--%s %v", logFormatFlag, err)
	}
	return f, nil
}

// logLevel is what the environment says; run has checked it.
func logLevel() slog.Level {
	level, _, _ := joblog.Level(os.Getenv)
	return level
}

// newLogger makes the logger of launch in a role, and slog's default of it.
func newLogger(w io.Writer, format joblog.Format, role string) *slog.Logger {
	l := slog.New(logline.New(w, logLevel(), joblog.IsEvent))
	if format == joblog.JSON {
		l = joblog.New(w, logLevel(), joblog.Launcher(role))
	}
	slog.SetDefault(l)
	return l
}

// runLogged is run. Where the log is JSON, it has the error, too.
func (o *options) runLogged(ctx context.Context, stdout, stderr io.Writer) error {
	if o.output.logFormat != joblog.JSON {
		return o.run(ctx, stdout, stderr)
	}
	newLogger(stderr, o.output.logFormat, launcherRole)
	err := o.run(ctx, stdout, stderr)
	var exit exitError
	var usage usageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	slog.Error(err.Error())
	return exitError(1)
}

// launcherRole is the role of launch in its JSON lines.
const launcherRole = "launcher"

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
