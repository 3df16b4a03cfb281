package cluster

import (
	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// serveMetrics begins to serve what this process measures, where Config says so. A process without
// its endpoint works as well: the scheduler has the same numbers.
func (n *Node) serveMetrics() {
	if n.cfg.Metrics == "" || n.cfg.Recorder == nil {
		return
	}
	role := map[Role]string{Worker: exposition.Worker, Server: exposition.Server}[n.cfg.Role]
	whose := func() exposition.Process {
		return exposition.Process{Role: role, Rank: int(n.Rank()), Host: n.cfg.Host, Node: uint64(n.id)}
	}
	e, err := exposition.Listen(n.cfg.Metrics, whose, n.cfg.Recorder.Values, n.cfg.Logger)
	if err != nil {
		n.cfg.Logger.Warn("this process has no endpoint for Prometheus", "err", err)
		return
	}
	n.endpoint = e
	n.cfg.Recorder.Set(telemetry.MetricsPort, float64(e.Addr().Port))
	if !e.Addr().IP.IsLoopback() {
		n.cfg.Logger.Warn("everyone who reaches this address can read what this process measures: it is served without password and encryption", "addr", e.Addr())
	}
}
