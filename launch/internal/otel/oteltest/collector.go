// Package oteltest has a collector of OpenTelemetry for tests: it takes spans over HTTP on
// loopback, and keeps them.
package oteltest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// A Collector listens on loopback until its test ends.
type Collector struct {
	URL string // the base URL

	mu    sync.Mutex
	spans []Span
	raw   [][]byte
}

// A Span as it came.
type Span struct {
	Name, ID, Parent, Trace string
	Begin, End              time.Time
	Attributes, Resource    map[string]any
	Events                  []Event
	Failed                  bool

	// Message is that of its status.
	Message string
}

// An Event of a Span.
type Event struct {
	Name       string
	At         time.Time
	Attributes map[string]any
}

// New starts a collector.
func New(t *testing.T) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var q collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &q)
		}
		if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" || err != nil {
			t.Errorf("the collector got %s %s of %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.take(&q, body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) take(q *collector.ExportTraceServiceRequest, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, body)
	for _, r := range q.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, x := range scope.Spans {
				s := Span{Name: x.Name, ID: string(x.SpanId), Parent: string(x.ParentSpanId), Trace: string(x.TraceId), Begin: at(x.StartTimeUnixNano), End: at(x.EndTimeUnixNano),
					Attributes: values(x.Attributes), Resource: values(r.Resource.GetAttributes()), Failed: x.Status.GetCode() == 2, Message: x.Status.GetMessage()}
				for _, e := range x.Events {
					s.Events = append(s.Events, Event{e.Name, at(e.TimeUnixNano), values(e.Attributes)})
				}
				c.spans = append(c.spans, s)
			}
		}
	}
}

func at(ns uint64) time.Time { return time.Unix(0, int64(ns)) }

// values are attributes as strings, int64s and lists of strings.
func values(list []*common.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, x := range list {
		switch v := x.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[x.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[x.Key] = v.IntValue
		case *common.AnyValue_ArrayValue:
			var texts []string
			for _, y := range v.ArrayValue.Values {
				texts = append(texts, y.GetStringValue())
			}
			m[x.Key] = texts
		}
	}
	return m
}

// Spans are those that have come.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Raw is all that has come, as it came.
func (c *Collector) Raw() (all []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.raw {
		all = append(all, b...)
	}
	return all
}
