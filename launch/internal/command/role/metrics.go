package role

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/launch/internal/prom"
)

// The variables by which launch tells the scheduler about metrics.
const (
	// metricsListenEnv is host:port; empty: there are no metrics.
	metricsListenEnv = "PARAGON_METRICS_LISTEN"

	// restartsEnv is how often launch has started the job again.
	restartsEnv = "PARAGON_RESTARTS"
)

// schedulerMetrics are the metrics that a scheduler's process serves.
type schedulerMetrics struct {
	// server is nil if none are wanted.
	server *prom.Server

	// telemetry carries questions to the scheduler of this process
	// (scheduler.Config.Telemetry).
	telemetry chan chan<- *control.Telemetry
}

// serveMetrics begins to serve the job's metrics where the environment says. An address that cannot
// be used is an error, unless the job has been running: a scheduler that is started again has its
// port from the launcher, and training goes on without metrics.
func serveMetrics(getenv func(string) string, cfg cluster.Config) (*schedulerMetrics, error) {
	m := &schedulerMetrics{}
	listen := getenv(metricsListenEnv)
	if listen == "" {
		return m, nil
	}
	restarts := 0
	if text := getenv(restartsEnv); text != "" {
		var err error
		if restarts, err = strconv.Atoi(text); err != nil || restarts < 0 {
			return nil, fmt.Errorf("launch: scheduler: %s is %q, want a number from 0", restartsEnv, text)
		}
	}
	m.telemetry = make(chan chan<- *control.Telemetry)
	server, err := prom.Listen(prom.Config{Listen: listen, Ask: m.ask, Restarts: restarts})
	if err != nil {
		if _, port, _ := net.SplitHostPort(cfg.Scheduler); port != "0" {
			slog.Warn("metrics are not served until the scheduler is started again", "err", err)
			return m, nil
		}
		return nil, fmt.Errorf("launch: scheduler: --metrics-listen: %w", err)
	}
	if m.server = server; !server.IsPrivate() {
		slog.Warn("everyone who reaches this address can read the job's metrics: they are served without password and encryption", "addr", server.Addr())
	}
	return m, nil
}

// ask asks the scheduler of this process.
func (m *schedulerMetrics) ask(ctx context.Context) (*control.Telemetry, error) {
	reply := make(chan *control.Telemetry, 1)
	select {
	case m.telemetry <- reply:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case t := <-reply:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// report tells the launcher the address.
func (m *schedulerMetrics) report(report func(line string) error) {
	if m.server == nil {
		return
	}
	line, err := control.Report{Metrics: m.server.Addr()}.Line()
	if err == nil {
		err = report(line)
	}
	if err != nil {
		slog.Warn("the address of the metrics could not be reported to the launcher", "err", err)
	}
}

// close ends the server of metrics. That it could not is no reason for the job to fail.
func (m *schedulerMetrics) close() {
	if m.server == nil {
		return
	}
	if err := m.server.Close(); err != nil {
		slog.Warn("the metrics' server could not be closed", "err", err)
	}
}
