package options

import (
	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// Output says in which form launch writes what.
type Output struct {
	// JSON is for what the processes print.
	JSON bool

	// LogFormat is how launch and the processes of the job write their logs.
	LogFormat joblog.Format

	// Result is a file; empty: none.
	Result string
}

// read reads the flags. A check starts no job, so it has no result and no output of processes.
func (o *Output) read(c *cli.Context, check bool) (err error) {
	o.Result = c.Path("result")
	switch {
	case c.IsSet("result") && o.Result == "":
		return command.Usagef("--result is empty; give a file")
	case o.Result != "" && check:
		return command.Usagef("--result tells how a job ended, and --check starts none; leave one of them out")
	}
	switch v := c.String("output"); {
	case v != "text" && v != "json":
		return command.Usagef("--output %q is unknown; want text or json", v)
	case v == "json" && check:
		return command.Usagef("--output json is for the output of processes, and --check starts none; leave one of them out")
	default:
		o.JSON = v == "json"
	}
	o.LogFormat, err = command.ReadLogFormat(c)
	return err
}
