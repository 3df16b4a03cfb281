package otel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	// queueSize is how many spans can wait for the collector. More are dropped.
	queueSize = 4096

	// batchTime is how often spans are sent.
	batchTime = 5 * time.Second

	// exportTimeout bounds one batch, with its repetitions.
	exportTimeout = 10 * time.Second

	// flushTime is the time at the end of the job.
	flushTime = 2 * time.Second
)

// An exporter hands spans to another one, and says once that they cannot be delivered.
type exporter struct {
	sdk.SpanExporter
	endpoint  string
	log       *slog.Logger
	once      sync.Once
	delivered atomic.Int64
}

// ExportSpans implements sdk.SpanExporter. Its errors end here: the library would print each of
// them.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failed(err)
		return nil
	}
	e.delivered.Add(int64(len(spans)))
	return nil
}

func (e *exporter) failed(err error) {
	e.once.Do(func() {
		e.log.Warn(fmt.Sprintf("OpenTelemetry: spans cannot be sent to %s: %v; the job goes on, and further failures are not logged", e.endpoint, err))
	})
}

// newProvider returns what makes spans and sends them to the URL.
func newProvider(endpoint string, log *slog.Logger, attrs []attribute.KeyValue) (*sdk.TracerProvider, *exporter, error) {
	inner, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, err
	}
	e := &exporter{SpanExporter: inner, endpoint: endpoint, log: log}
	// The user's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last: they count.
	res, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithSchemaURL(semconv.SchemaURL), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil {
		log.Warn(fmt.Sprintf("OpenTelemetry: OTEL_RESOURCE_ATTRIBUTES: %v", err))
	}
	return sdk.NewTracerProvider(sdk.WithResource(res), sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithBatcher(e, sdk.WithMaxQueueSize(queueSize), sdk.WithBatchTimeout(batchTime), sdk.WithExportTimeout(exportTimeout))), e, nil
}
