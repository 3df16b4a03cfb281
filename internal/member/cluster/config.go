package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/observe/joblog"
	"github.com/paragon-train/paragon/internal/store/identity"
	"github.com/paragon-train/paragon/internal/store/transport"
)

// MaxNodes is the most workers and servers of a job together: its membership must fit one frame.
const MaxNodes = 5000

// WithDefaults returns the Config with zero fields replaced by their defaults.
func (c Config) WithDefaults() Config {
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Second)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 5*time.Minute)
	if c.SchedulerTimeout == 0 {
		c.SchedulerTimeout = c.Lease
		if c.State != "" {
			c.SchedulerTimeout = max(c.Lease, 10*time.Minute)
		}
	}
	c.Elastic = c.Elastic.withDefaults()
	if c.Network == nil {
		c.Network = transport.Auto
	}
	if c.Logger == nil {
		c.Logger = joblog.Process()
	}
	return c
}

func (e Elastic) withDefaults() Elastic {
	if e.OnWorkerLoss == "" {
		e.OnWorkerLoss = LossFail
		if e.Enabled {
			e.OnWorkerLoss = LossShrink
		}
	}
	e.MinWorkers = cmp.Or(e.MinWorkers, 1)
	e.JoinTimeout = cmp.Or(e.JoinTimeout, 5*time.Minute)
	e.RejoinTimeout = cmp.Or(e.RejoinTimeout, 5*time.Minute)
	return e
}

// Validate returns an error that names the first invalid field, its value and the rule.
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
	case c.NumWorkers < 1 || c.NumWorkers > MaxNodes:
		return bad("NumWorkers", c.NumWorkers, fmt.Sprintf("want 1 to %d", MaxNodes))
	case c.NumServers < 1 || c.NumServers > MaxNodes:
		return bad("NumServers", c.NumServers, fmt.Sprintf("want 1 to %d", MaxNodes))
	case c.Role == Worker && !c.Joining && (c.Rank < -1 || c.Rank >= c.NumWorkers):
		return bad("Rank", c.Rank, fmt.Sprintf("want 0 to %d, or -1 for any", c.NumWorkers-1))
	case c.Role == Server && (c.Rank < -1 || c.Rank >= c.NumServers && !c.Joining):
		return bad("Rank", c.Rank, fmt.Sprintf("want 0 to %d, or -1 for any", c.NumServers-1))
	case c.HeartbeatInterval < 0 || c.Lease < 0 || c.StartTimeout < 0 || c.SchedulerTimeout < 0:
		return errors.New("cluster: HeartbeatInterval, Lease, StartTimeout and SchedulerTimeout: want none below zero")
	}
	if err := c.validateElastic(); err != nil {
		return err
	}
	if d := c.WithDefaults(); d.Lease < 2*d.HeartbeatInterval {
		return bad("Lease", d.Lease, fmt.Sprintf("want at least two heartbeats of %v", d.HeartbeatInterval))
	}
	if c.Identity != nil && c.Identity.Role() != c.Role.String() {
		return bad("Identity", c.Identity, fmt.Sprintf("got the certificate of a %s, want one of a %v, the role of this process", c.Identity.Role(), c.Role))
	}
	if len(c.Secret) == 0 && c.usesSystemNetwork() && !loopback(host) {
		return bad("Secret", "is empty", fmt.Sprintf("want one unless the scheduler listens on loopback; it is at %s", host))
	}
	return nil
}

func (c Config) validateElastic() error {
	e := c.Elastic
	bad := func(field string, value any, rule string) error {
		return fmt.Errorf("cluster: Elastic.%s %v: %s", field, value, rule)
	}
	switch {
	case e.OnWorkerLoss != "" && e.OnWorkerLoss != LossFail && e.OnWorkerLoss != LossShrink && e.OnWorkerLoss != LossWait:
		return bad("OnWorkerLoss", fmt.Sprintf("%q", e.OnWorkerLoss), "want shrink, wait or fail")
	case e.MinWorkers < 0 || e.MinWorkers > c.NumWorkers && c.Role == Scheduler:
		return bad("MinWorkers", e.MinWorkers, fmt.Sprintf("want 1 to the job's %d workers", c.NumWorkers))
	case e.MaxWorkers < 0 || e.MaxWorkers > MaxNodes || e.MaxWorkers > 0 && e.MaxWorkers < c.NumWorkers && c.Role == Scheduler:
		return bad("MaxWorkers", e.MaxWorkers, fmt.Sprintf("want %d (the job's workers) to %d, or 0 for any number", c.NumWorkers, MaxNodes))
	case e.AdaptWorkers && e.MaxWorkers == 0:
		return bad("MaxWorkers", e.MaxWorkers, "want at least 1 with AdaptWorkers")
	case e.AdaptWorkers && !e.Enabled && c.Role == Scheduler:
		return bad("AdaptWorkers", e.AdaptWorkers, "want Elastic.Enabled, too")
	case e.JoinTimeout < 0 || e.RejoinTimeout < 0:
		return errors.New("cluster: Elastic.JoinTimeout and RejoinTimeout: want none below zero")
	case e.Rejoin < 0:
		return bad("Rejoin", e.Rejoin, "want none below 0")
	case e.Backups < 0 || e.Backups > 1:
		return bad("Backups", e.Backups, "want 0 or 1")
	case e.Backups > 0 && c.NumServers < 2 && c.Role == Scheduler:
		return bad("Backups", e.Backups, fmt.Sprintf("want 0 with %d server: a backup is on another server", c.NumServers))
	}
	return nil
}

// usesSystemNetwork reports whether the network is the operating system's, not a test's.
func (c Config) usesSystemNetwork() bool {
	return c.Network == nil || c.Network == transport.Auto || c.Network == transport.Unix || c.Network == transport.TCP
}

// loopback reports whether a host is this one, so that no secret is needed.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Transport returns this node's transport.Config: to call peers of a role or, without a role, to
// serve all roles.
func (c Config) Transport(peers ...Role) transport.Config {
	t := transport.Config{Network: c.Network, Secret: c.Secret, Identity: c.Identity, Logger: c.Logger, Recorder: c.Recorder}
	for _, r := range peers {
		t.Peers = append(t.Peers, r.String())
	}
	if len(peers) == 0 {
		t.Peers = []string{identity.Worker, identity.Server}
		if c.Role == Scheduler {
			t.Peers = append(t.Peers, identity.Launcher)
		}
	}
	return t
}
