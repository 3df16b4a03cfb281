package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/paragon-train/paragon/transport"
)

// maxNodes bounds the nodes of a job: its membership must fit one frame.
const maxNodes = 5000

// WithDefaults returns the Config with the zero fields set to what they stand for.
func (c Config) WithDefaults() Config {
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 5*time.Minute)
	c.SchedulerTimeout = cmp.Or(c.SchedulerTimeout, c.Lease)
	if c.Network == nil {
		c.Network = transport.Auto
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Validate reports the first field that cannot be right, with its value and the rule.
func (c Config) Validate() error {
	host, _, err := net.SplitHostPort(c.Scheduler)
	bad := func(field string, value any, rule string) error {
		return fmt.Errorf("cluster: %s %v: %s", field, value, rule)
	}
	switch {
	case c.Role < Scheduler || c.Role > Worker:
		return bad("Role", uint8(c.Role), "want Scheduler, Server or Worker")
	case err != nil:
		return bad("Scheduler", fmt.Sprintf("%q", c.Scheduler), "want host:port")
	case c.NumWorkers < 1 || c.NumWorkers > maxNodes:
		return bad("NumWorkers", c.NumWorkers, fmt.Sprintf("want 1 to %d", maxNodes))
	case c.NumServers < 1 || c.NumServers > maxNodes:
		return bad("NumServers", c.NumServers, fmt.Sprintf("want 1 to %d", maxNodes))
	case c.Role == Worker && (c.Rank < -1 || c.Rank >= c.NumWorkers):
		return bad("Rank", c.Rank, fmt.Sprintf("want -1, for any, or a worker's, 0 to %d", c.NumWorkers-1))
	case c.Role == Server && (c.Rank < -1 || c.Rank >= c.NumServers):
		return bad("Rank", c.Rank, fmt.Sprintf("want -1, for any, or a server's, 0 to %d", c.NumServers-1))
	case c.HeartbeatInterval < 0 || c.Lease < 0 || c.StartTimeout < 0 || c.SchedulerTimeout < 0:
		return errors.New("cluster: HeartbeatInterval, Lease, StartTimeout and SchedulerTimeout: want none below zero")
	}
	if d := c.WithDefaults(); d.Lease < 2*d.HeartbeatInterval {
		return bad("Lease", d.Lease, fmt.Sprintf("want at least two heartbeats of %v", d.HeartbeatInterval))
	}
	if len(c.Secret) == 0 && c.ofSystem() && !loopback(host) {
		return bad("Secret", "is empty", fmt.Sprintf("only a job on loopback may do without, and the scheduler is at %s", host))
	}
	return nil
}

// ofSystem tells whether the network is one of the operating system's, not a test's.
func (c Config) ofSystem() bool {
	return c.Network == nil || c.Network == transport.Auto || c.Network == transport.Unix || c.Network == transport.TCP
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// transportConfig is how this node speaks to others.
func (c Config) transportConfig() transport.Config {
	return transport.Config{Network: c.Network, Secret: c.Secret, Logger: c.Logger}
}
