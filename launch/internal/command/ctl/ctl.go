package ctl

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
)

// Run is `launch ctl`.
func Run(args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name:  "launch ctl",
		Usage: "inspect a running job, change its hosts, or stop it",
		Description: `These commands find the jobs of this user on this machine. To reach a job on another machine, start its launcher with
--listen ADDR --secret-file FILE (with --launcher agents it always listens, and logs the address), and give --join:

   launch ctl --join head:4000 --secret-file job.secret status
   kubectl port-forward job/paragon-scheduler 7077 &
   launch ctl --join localhost:7077 --secret-file paragon-secret why

All commands take --join; plan and export need no job.`,
		Flags:    remoteFlags(),
		Commands: []*cli.Command{statusCommand(), whyCommand(), pageCommand(), traceCommand(), addCommand(), removeCommand(), scaleCommand(), stopCommand(), addServerCommand(), removeServerCommand(), planCommand(), exportCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.UnknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	return command.RunApp(app, args, stdout, stderr)
}
