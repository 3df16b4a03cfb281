package shardserver

import (
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// Each service decodes requests of its own kind, and takes those of this process into the same
// place.
func TestEachServiceIsOfItsKind(t *testing.T) {
	served := 0
	for kind := range makeServices() {
		x := serviceOf(wire.Kind(kind))
		if x == nil {
			continue
		}
		served++
		c := &call{}
		if got := x.head(c).Kind(); got != wire.Kind(kind) {
			t.Errorf("the service of %v decodes a %v", wire.Kind(kind), got)
		}
		if x.prepare == nil {
			t.Errorf("the service of %v prepares nothing", wire.Kind(kind))
		}
		if x.take != nil && (!x.take(c, wire.New(wire.Kind(kind))) || x.take(c, &wire.Nack{})) {
			t.Errorf("the service of %v does not take a %v, or takes another message", wire.Kind(kind), wire.Kind(kind))
		}
	}
	if served < 19 {
		t.Errorf("got %d services, want all", served)
	}
	if serviceOf(wire.KindNack) != nil || serviceOf(255) != nil {
		t.Error("there is a service of a kind that servers do not answer")
	}
}
