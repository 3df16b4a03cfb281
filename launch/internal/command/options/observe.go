package options

import (
	"net"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/launch/internal/command"
	"github.com/paragon-train/paragon/launch/internal/otel"
	"github.com/paragon-train/paragon/launch/internal/prom"
)

// otelFlag names the collector of the job's spans.
const otelFlag = "otel-endpoint"

// Observed says who can watch the job.
type Observed struct {
	// MetricsListen is empty if nothing is served.
	MetricsListen string

	// ProcessMetrics is a host with port 0; empty: nothing is served.
	ProcessMetrics string

	// Page says where the live page is.
	Page Page

	// OtelEndpoint is that of --otel-endpoint; empty: as the standard variables say.
	OtelEndpoint string
}

// readMetrics reads where metrics are served. Processes choose free ports, since several run on a
// host.
func (o *Observed) readMetrics(c *cli.Context) error {
	if o.MetricsListen = c.String("metrics-listen"); c.IsSet("metrics-listen") {
		if err := prom.CheckAddress(o.MetricsListen); err != nil {
			return command.Usagef("--metrics-listen: %v", err)
		}
	}
	if host := c.String("process-metrics"); c.IsSet("process-metrics") {
		if host == "" || strings.Contains(host, "/") {
			return command.Usagef("--process-metrics %q: want a host or address without a port, such as 127.0.0.1, or 0.0.0.0 for all interfaces", host)
		}
		o.ProcessMetrics = net.JoinHostPort(host, "0")
	}
	return nil
}

// readSpans reads where spans are sent.
func (o *Observed) readSpans(c *cli.Context) error {
	if o.OtelEndpoint = c.String(otelFlag); c.IsSet(otelFlag) {
		if err := otel.CheckEndpoint(o.OtelEndpoint); err != nil {
			return command.Usagef("--%s: %v", otelFlag, err)
		}
	}
	return nil
}

// Page says where the live page is.
type Page struct {
	// Listen is host:port; empty: there is no page.
	Listen string

	// Asked says that the user gave the address: if it cannot be listened on, the job does not
	// start.
	Asked bool

	// Cert and key are paths of PEM files, both or neither.
	Cert, Key string
}

// readPage reads the flags of the live page. A trial of a search has no page unless it is asked
// for: the search has one.
func readPage(c *cli.Context, trial bool) (s Page, err error) {
	s = Page{Listen: c.String(command.PageFlag), Asked: c.IsSet(command.PageFlag), Cert: c.Path("status-cert"), Key: c.Path("status-key")}
	switch {
	case s.Listen == command.PageOff || trial && !s.Asked:
		s.Listen = ""
	case s.Listen == "":
		return s, command.Usagef("--%s is empty; want host:port, or %s", command.PageFlag, command.PageOff)
	case !strings.Contains(s.Listen, ":"):
		return s, command.Usagef("--%s: address %q: want host:port, or %s", command.PageFlag, s.Listen, command.PageOff)
	}
	if (s.Cert == "") != (s.Key == "") {
		return s, command.Usagef("--status-cert and --status-key belong together; got only one of them")
	}
	return s, nil
}
