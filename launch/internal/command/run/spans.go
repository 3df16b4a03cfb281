package run

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/launch/internal/command/options"
	"github.com/paragon-train/paragon/launch/internal/job"
	"github.com/paragon-train/paragon/launch/internal/otel"
)

// openSpans begins to send spans of the job if the user names a collector; nil: nobody is to get
// them. That this is not possible is said, and ends nothing.
func openSpans(o *options.Options, log *slog.Logger) *otel.Tracer {
	endpoint, err := otel.Endpoint(o.Observed.OtelEndpoint, os.Getenv)
	if err == nil && endpoint == "" {
		return nil
	}
	var t *otel.Tracer
	if err == nil {
		t, err = otel.New(otel.Config{Endpoint: endpoint, Program: filepath.Base(o.Command[0]), Workers: o.Workers, Servers: o.Servers, Logger: log})
	}
	if err != nil {
		log.Warn(fmt.Sprintf("OpenTelemetry: no spans are sent: %v", err))
		return nil
	}
	log.Info(fmt.Sprintf("OpenTelemetry: spans of trace %s go to %s", t.TraceID(), endpoint))
	return t
}

// closeSpans ends them with the job.
func closeSpans(t *otel.Tracer, res *job.Result, err error) {
	if t != nil {
		t.Close(res.Report(err, res.Code))
	}
}
