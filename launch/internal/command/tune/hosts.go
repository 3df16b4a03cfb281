package tune

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/member/searchcontrol"
	"github.com/paragon-train/paragon/launch/internal/command"
)

// hostsCommand is `launch tune hosts`.
func hostsCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "show the hosts of a running search",
		ArgsUsage: "DIR",
		Description: `Prints the resources of each host, how much is in use, and why a host is set aside:

   launch tune hosts runs/mnist`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return command.Usagef("tune hosts: got %d arguments, want the folder of a study", c.NArg())
			}
			return askSearch(c, out, searchcontrol.Request{Op: searchcontrol.Hosts})
		},
	}
}

// addCommand is `launch tune add`.
func addCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "add",
		Usage:     "add a host to a running search",
		ArgsUsage: "DIR HOST [slots=N] [gpus=N] [cpus=N]",
		Description: `Trials may run on HOST immediately. A host that the search has set aside is used again:

   launch tune add runs/mnist d3
   launch tune add runs/mnist me@10.0.0.7:2222 slots=4

The hosts file does not change: add the host there, too, if a resumed search should use it.`,
		Action: func(c *cli.Context) error {
			if c.NArg() < 2 {
				return command.Usagef("tune add: got %d arguments, want the folder of a study and a host", c.NArg())
			}
			words := c.Args().Tail()
			if _, err := hosts.ParseLine(words); err != nil {
				return command.Usage(fmt.Errorf("launch: tune add: %w", err))
			}
			return askSearch(c, out, searchcontrol.Request{Op: searchcontrol.Add, Host: strings.Join(words, " ")})
		},
	}
}

// removeCommand is `launch tune remove`.
func removeCommand(out io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "remove",
		Usage:     "remove a host from a running search",
		ArgsUsage: "DIR HOST",
		Description: `No more trials start on HOST; those that run there run to their end:

   launch tune remove runs/mnist d3`,
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return command.Usagef("tune remove: got %d arguments, want the folder of a study and a host", c.NArg())
			}
			return askSearch(c, out, searchcontrol.Request{Op: searchcontrol.Remove, Host: c.Args().Get(1)})
		},
	}
}

// askSearch puts a request to the search in the folder that the command names, and prints the
// answer.
func askSearch(c *cli.Context, out io.Writer, q searchcontrol.Request) error {
	text, err := searchcontrol.Ask(c.Context, c.Args().First(), q)
	if err != nil {
		return fmt.Errorf("launch: tune %s: %w", q.Op, err)
	}
	_, err = io.WriteString(out, text)
	return err
}
