package ctl

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/member/record"
	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/jobpage"
)

// pageCommand is `launch ctl page`. A link works once, so each call makes another one: from the key
// in the job's record, or by the launcher itself where it runs on another machine, whose key never
// leaves it.
func pageCommand() *cli.Command {
	return &cli.Command{
		Name:  "page",
		Usage: "print a link to the live page of a job",
		Description: `Prints a link to the job's live page. The link works once, in one browser:

   launch ctl page

launch serves the page, on the machine on which it runs. To open it from another machine, run ssh -L 8080:127.0.0.1:PORT HOST there, with the port of the link,
and open the link with localhost:8080 in place of its host and port. See docs/how-to/page.md.`,
		Flags: jobFlags(),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.Usagef("ctl page: got %q, want flags only", c.Args().First())
			}
			k, err := findJob(c, record.Find)
			if err != nil {
				return err
			}
			noPage := fmt.Errorf("launch: job %s has no live page: it was started with --%s %s, it is a trial of a search, or its launch could not listen for it (see launch's log)", k.Job, command.PageFlag, command.PageOff)
			if k.remote != nil {
				link, err := k.remote.client.Link(c.Context, k.Job)
				switch {
				case err != nil:
					return k.remote.explain(err)
				case link == "":
					return noPage
				}
				fmt.Fprintf(c.App.ErrWriter, "launch: the page is served on %s; if this link does not reach it, see launch ctl page --help\n", k.Host)
				_, err = fmt.Fprintln(c.App.Writer, link)
				return err
			}
			link := jobpage.Link(k.Credentials)
			if link == "" {
				return noPage
			}
			_, err = fmt.Fprintln(c.App.Writer, link)
			return err
		},
	}
}
