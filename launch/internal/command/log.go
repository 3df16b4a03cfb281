package command

import (
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/observe/logline"
)

const logFormatFlag = "log-format"

// NewLogFormatFlag is the flag of commands that log.
func NewLogFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: logFormatFlag, Usage: "write the log as text, or as json: one JSON object a line on the standard error, with job, role, rank, process and event",
		Value: string(joblog.Text), EnvVars: []string{joblog.Variable}}
}

// ReadLogFormat reads that flag.
func ReadLogFormat(c *cli.Context) (joblog.Format, error) {
	f, err := joblog.ParseFormat(c.String(logFormatFlag))
	if err != nil {
		return "", Usagef("--%s %v", logFormatFlag, err)
	}
	return f, nil
}

// logLevel is what the environment says; run has checked it.
func logLevel() slog.Level {
	level, _, _ := joblog.Level(os.Getenv)
	return level
}

// NewLogger makes the logger of launch in a role, and slog's default of it: libraries below launch
// log by slog's default, and their lines have to look like all others.
func NewLogger(w io.Writer, format joblog.Format, role string) *slog.Logger {
	l := slog.New(logline.New(w, logLevel(), joblog.IsEvent))
	if format == joblog.JSON {
		l = joblog.New(w, logLevel(), joblog.Launcher(role))
	}
	slog.SetDefault(l)
	return l
}
