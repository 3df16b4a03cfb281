package transport_test

import (
	"testing"

	. "github.com/paragon-train/paragon/internal/store/transport"

	"github.com/paragon-train/paragon/internal/observe/telemetry"
	"github.com/paragon-train/paragon/internal/store/wire"
)

// Both ends count the same bytes, by transport: what one has sent the other has received.
func TestTrafficIsCountedByTransport(t *testing.T) {
	for name, test := range map[string]struct {
		network Network
		index   int
	}{"tcp": {TCP, telemetry.TCP}, "within a host": {Auto, telemetry.SharedMemory}, "unix": {Unix, telemetry.UnixSocket}} {
		t.Run(name, func(t *testing.T) {
			ln, err := test.network.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var here, there telemetry.Recorder
			s := serve(t, ln, new(handler), Config{Network: test.network, Secret: []byte("s"), Recorder: &there})
			c := client(t, ln.Addr().String(), Config{Network: test.network, Secret: []byte("s"), Connections: 1, Recorder: &here})
			const large, small = 3 << 20, 100
			for _, n := range []uint64{large, small} {
				if _, err := c.Call(t.Context(), &wire.Pull{Round: n}, &wire.Value{}, make([]byte, n)); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Call(t.Context(), &wire.Push{}, &wire.Ack{}, nil, make([]byte, n)); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			s.Close()
			frames := 2 * (2*wire.HeaderSize + len(wire.AppendHead(nil, &wire.Pull{})) + len(wire.AppendHead(nil, &wire.Push{})))
			answers := 2 * (2*wire.HeaderSize + len(wire.AppendHead(nil, &wire.Value{})) + len(wire.AppendHead(nil, &wire.Ack{})))
			for _, x := range []struct {
				what string
				of   *telemetry.Recorder
				m    telemetry.Metric
				want int
			}{
				{"the client sent", &here, telemetry.SentBytes, large + small + frames}, {"the server received", &there, telemetry.ReceivedBytes, large + small + frames},
				{"the client received", &here, telemetry.ReceivedBytes, large + small + answers}, {"the server sent", &there, telemetry.SentBytes, large + small + answers},
			} {
				if got := counted(x.of, x.m); len(got) != 1 || got[test.index] != float64(x.want) {
					t.Errorf("%s %v bytes by transport, want %d by transport %d alone", x.what, got, x.want, test.index)
				}
			}
		})
	}
}

// counted is a counter by index.
func counted(r *telemetry.Recorder, m telemetry.Metric) map[int]float64 {
	all := map[int]float64{}
	for _, s := range r.Record().Samples {
		if s.Metric == m {
			all[int(s.Index)] = s.Value
		}
	}
	return all
}
