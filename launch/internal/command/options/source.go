package options

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/hostsource"
)

// The flags that name a list of hosts which others keep.
const (
	HostsCommandFlag = "hosts-command"
	HostsURLFlag     = "hosts-url"
)

// sourceFlags are the flags about that list.
func sourceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: HostsCommandFlag, Usage: "take the hosts from `COMMAND`, which runs repeatedly and prints them as JSON lines (ssh; see docs/how-to/clouds.md)"},
		&cli.StringFlag{Name: HostsURLFlag, Usage: "take the hosts from the list at `URL` (http or https) in the same way"},
		&cli.DurationFlag{Name: "hosts-interval", Usage: "get the list every `TIME`", Value: 5 * time.Second},
		&cli.BoolFlag{Name: "hosts-force", Usage: "remove hosts even if the list names fewer than half of them, or none", DisableDefaultText: true},
	}
}

// hasSource reports whether others keep the list of hosts.
func hasSource(c *cli.Context) bool { return c.IsSet(HostsCommandFlag) || c.IsSet(HostsURLFlag) }

// readSource reads the flags of that list. follows says that the job's hosts may change while it
// runs; otherwise the list is asked for the first hosts alone.
func (s *Start) readSource(c *cli.Context, follows bool) error {
	if !hasSource(c) {
		for _, name := range []string{"hosts-interval", "hosts-force"} {
			if c.IsSet(name) {
				return command.Usagef("--%s is about a list of hosts; give --%s or --%s, too", name, HostsCommandFlag, HostsURLFlag)
			}
		}
		return nil
	}
	l := Source{Flag: HostsCommandFlag, Interval: c.Duration("hosts-interval"), Force: c.Bool("hosts-force")}
	if c.IsSet(HostsURLFlag) {
		l.Flag = HostsURLFlag
	}
	l.Value = c.String(l.Flag)
	switch {
	case c.IsSet(HostsCommandFlag) && c.IsSet(HostsURLFlag):
		return command.Usagef("--%s and --%s: want one list of hosts, got two", HostsCommandFlag, HostsURLFlag)
	case s.Method != SSHMethod && s.Method != LocalMethod:
		return command.Usagef("--%s is for hosts that launch reaches by ssh; with --launcher %s they come by themselves: leave it out", l.Flag, s.Method)
	case strings.TrimSpace(l.Value) == "":
		return command.Usagef("--%s is empty", l.Flag)
	case l.Interval < time.Second || l.Interval > maxTime:
		return command.Usagef("--hosts-interval is %s, want at least 1s, such as 5s or 1m, and at most %.0fh", l.Interval, maxTime.Hours())
	case s.Hosts != nil && !follows:
		return command.Usagef("--%s adds and removes hosts while the job runs; give --%s, too, or leave out -H to take the first hosts from the list", l.Flag, elasticFlag)
	case l.Force && !follows:
		return command.Usagef("--hosts-force is about hosts that leave a running job; give --%s, too", elasticFlag)
	}
	if l.Flag == HostsURLFlag {
		if _, err := hostsource.NewURL(l.Value); err != nil {
			return command.Usagef("--%s: %v", HostsURLFlag, err)
		}
	}
	s.Source = l
	return nil
}
