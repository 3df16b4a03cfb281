package transport

import (
	"net"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// traffic counts the bytes of frames on one connection. Its zero value counts nothing.
type traffic struct {
	to *telemetry.Recorder
	// transport is as telemetry.SentBytes has it.
	transport int
}

// trafficOf returns the counts of a connection, by what carries its bytes.
func trafficOf(nc net.Conn, to *telemetry.Recorder) traffic {
	t := traffic{to, telemetry.TCP}
	if c, ok := nc.(interface{ transport() int }); ok {
		t.transport = c.transport()
	}
	return t
}

func (t traffic) sent(n int)     { t.to.AddAt(telemetry.SentBytes, t.transport, float64(n)) }
func (t traffic) received(n int) { t.to.AddAt(telemetry.ReceivedBytes, t.transport, float64(n)) }
