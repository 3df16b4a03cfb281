package otel

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/paragon-train/paragon/internal/member/control"
)

// eventAttributes are what an event of the scheduler says, without what it leaves out.
func eventAttributes(e *control.Event) (list []attribute.KeyValue) {
	if e.Host != "" {
		list = append(list, semconv.HostName(e.Host))
	}
	if e.Role != "" {
		list = append(list, roleKey.String(e.Role))
	}
	if e.OfServer() {
		list = append(list, rankKey.Int64(int64(e.Rank)))
	}
	if e.Process != 0 {
		list = append(list, processKey.Int64(int64(e.Process)))
	}
	if e.PID != 0 {
		list = append(list, semconv.ProcessPID(int(e.PID)))
	}
	if e.Workers != 0 {
		list = append(list, workersKey.Int(e.Workers))
	}
	if e.Reason != "" {
		list = append(list, reasonKey.String(e.Reason))
	}
	return list
}
