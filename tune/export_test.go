package tune

import (
	"testing"
	"time"
)

// ProbeOften has hosts that are set aside probed every two seconds at least until the test ends: on
// a busy machine many probes fail before a test lets a host return.
func ProbeOften(t testing.TB) {
	old := slowestProbe
	slowestProbe = 2 * time.Second
	t.Cleanup(func() { slowestProbe = old })
}
