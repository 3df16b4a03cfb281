package ctl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// scaleCommand is `launch ctl scale`.
func scaleCommand() *cli.Command {
	return &cli.Command{
		Name:      "scale",
		Usage:     "change the number of workers of a running job",
		ArgsUsage: "N | HOST=N[,HOST=N...]",
		Description: `Starts workers, or lets the workers of the highest ranks leave, until the job has N. The job must have been started with --elastic-training-enabled:

   launch ctl scale --wait 4           on hosts with free slots (slots= of the hosts file), or on this machine
   launch ctl scale d1=2,d2=1          on these hosts alone; hosts that are not named end with no worker

Training continues meanwhile, and nothing is restarted: workers join and leave between two steps, and a worker that leaves ends with exit code 0. The number stays within --min-workers and --max-workers. A newer request replaces one that is still in progress, and so does
launch ctl add or remove. launch ctl status shows how many workers are wanted and how many there are. --wait waits until they are the same, and ends with 1 if
workers cannot be started.`,
		Flags:  jobFlags(&cli.BoolFlag{Name: "wait", Usage: "wait until the job has that many workers", DisableDefaultText: true}),
		Action: scale,
	}
}

// reportsFor is how long the hosts of a job that has just begun are waited for: launch reports them
// when its processes run.
const reportsFor = 10 * time.Second

// scale asks for a number of workers and, with --wait, waits until the job has them.
func scale(c *cli.Context) error {
	q, err := scaleArgument(c.Args().Slice())
	if err != nil {
		return err
	}
	k, err := findJob(c, record.FindToChange)
	if err != nil {
		return err
	}
	wanted := control.ScaleText(q.Wanted(), q.Placement)
	ask := func(q control.Request, answer control.Answer) error {
		return askLater(c.Context, reportsFor, func() error {
			_, err := k.ask(c.Context, q, answer)
			return err
		})
	}
	if !c.Bool("wait") {
		if err := ask(q, &control.Done{}); err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "the job scales to %s. See launch ctl status.\n", wanted)
		return nil
	}
	if err := awaitScale(ask, k.Job, q); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "the job has %s\n", wanted)
	return nil
}

// awaitScale asks a job for a number of workers, and waits until it has them. A job that had them,
// but has lost one by the time its status is read, is asked once more.
func awaitScale(ask func(control.Request, control.Answer) error, job string, q control.Request) error {
	wanted := control.ScaleText(q.Wanted(), q.Placement)
	var done control.Done
	if err := ask(q, &done); err != nil {
		return err
	}
	for first := true; ; first = false {
		var s control.Status
		if err := ask(control.Request{Op: control.OpStatus}, &s); err != nil {
			return err
		}
		switch x := s.Scale; {
		// A job that ends while it scales does not reach the number.
		case s.Phase != control.Running:
			return fmt.Errorf("launch: job %s has %s", job, s.Phase)

		// Each request has a number, by which this one is told from a newer one for the
		// same number of workers.
		case x == nil, x.Number != done.Scale:
			return fmt.Errorf("launch: job %s: a newer request has replaced the scale to %s", job, wanted)
		case x.State == control.ScaleReached:
			return nil
		case x.State == control.ScaleTooFew && first:
			if err := ask(q, &done); err != nil {
				return err
			}
			continue
		case x.State == control.ScaleTooFew:
			return fmt.Errorf("launch: job %s: %d of %s: %s", job, x.Present, wanted, x.Reason)
		}

		// Nothing is polled: the scheduler answers when something happens, or after ten
		// seconds.
		var got control.Events
		if err := ask(control.Request{Op: control.OpEvents, After: s.LastEvent, WaitMillis: 10_000}, &got); err != nil {
			return err
		}
	}
}

// scaleArgument reads N or HOST=N,HOST=N.
func scaleArgument(args []string) (control.Request, error) {
	const want = "write launch ctl scale N, or launch ctl scale HOST=N,HOST=N"
	q := control.Request{Op: control.OpScale}
	if len(args) != 1 {
		return q, command.Usagef("ctl scale: got %q, want one number or one list of hosts; flags come before it; %s", args, want)
	}

	// A host may be given no worker, and the job may not.
	number := func(text string, least int) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > cluster.MaxNodes {
			return 0, fmt.Errorf("got %q, want a number of workers from %d to %d; %s", text, least, cluster.MaxNodes, want)
		}
		return n, nil
	}
	if !strings.Contains(args[0], "=") {
		n, err := number(args[0], 1)
		if err != nil {
			return q, command.Usagef("ctl scale: %v", err)
		}
		q.Workers = n
		return q, nil
	}
	var all []hosts.Host
	for item := range strings.SplitSeq(args[0], ",") {
		name, text, found := strings.Cut(strings.TrimSpace(item), "=")
		h, err := hosts.ParseHost(name)
		if err == nil && !found {
			err = errors.New("has no number of workers; " + want)
		}
		n := 0
		if err == nil {
			n, err = number(text, 0)
		}
		for _, o := range all {
			if err == nil && o.Same(h) {
				err = errors.New("the host is named twice, want it once")
			}
		}
		if err != nil {
			return q, command.Usagef("ctl scale: %s: %v", item, err)
		}
		all = append(all, h)
		q.Placement = append(q.Placement, control.WorkersOnHost{Host: h.String(), Workers: n})
	}
	if q.Wanted() == 0 {
		return q, command.Usagef("ctl scale: %s leaves no worker, want at least 1", args[0])
	}
	return q, nil
}
