package options

import (
	"net"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/job"
)

// Network says how the processes reach each other.
type Network struct {
	// HostIP is the scheduler's address; empty: it is found out.
	HostIP string

	// Name is that of a network interface; empty: any.
	Name string

	// TLS says that what processes say to each other is encrypted, and that each knows who the
	// other is.
	TLS bool
}

// read reads the flags. remote says that processes run on other hosts than this machine, and here
// that the scheduler runs on this one: only then is the interface looked up at once, since it is
// the scheduler's address that is sought.
func (n *Network) read(c *cli.Context, remote, here bool) error {
	n.HostIP, n.Name = c.String("host-ip"), c.String("interface")
	switch v := c.String("tls"); v {
	case "auto":
		n.TLS = remote
	case "on", "off":
		n.TLS = v == "on"
	default:
		return command.Usagef("--tls %q is unknown; want auto, on or off", v)
	}

	// An address that is given wins over that of an interface.
	if n.HostIP != "" {
		if net.ParseIP(n.HostIP) == nil {
			return command.Usagef("--host-ip %q is not an IP address", n.HostIP)
		}
		return nil
	}
	if n.Name != "" && here {
		var err error
		if n.HostIP, err = job.InterfaceAddress(n.Name); err != nil {
			return command.Usage(err)
		}
	}
	return nil
}
