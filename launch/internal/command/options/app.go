package options

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/version"
)

// NewApp makes the app of launch itself, with all its flags. Whoever makes it sets its Action: to
// run the job, or only to read the command line that another program will be given.
func NewApp(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:            "launch",
		Usage:           "start a training job on this machine or on a list of hosts",
		Version:         version.Text(),
		UsageText:       usageText,
		Description:     description,
		HideHelpCommand: true,

		// Values of --env may hold commas.
		DisableSliceFlagSeparator: true,

		Writer:    stdout,
		ErrWriter: stderr,

		// Package cli would end the process.
		ExitErrHandler: func(*cli.Context, error) {},

		Flags: Flags(),
		OnUsageError: func(c *cli.Context, err error, _ bool) error {
			return command.Usage(explainFlag(c.App, err))
		},
	}
}
