package cluster

import (
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// An answer has each key's shards, in order, and no more keys than it has places: what is made of
// it takes no memory for others.
func TestPlacesThatDoNotFitAreRefused(t *testing.T) {
	at := func(key uint64, shard uint32) wire.Place { return wire.Place{Key: key, Shard: shard} }
	for _, c := range []struct {
		next   uint64
		places []wire.Place
		// want is empty for no error.
		want string
	}{
		{5, nil, ""},
		{6, []wire.Place{at(5, 0)}, ""},
		{7, []wire.Place{at(5, 0), at(5, 1), at(6, 0)}, ""},
		{1 << 60, nil, "ends before key 1152921504606846976"},
		{4, nil, "ends before key 4"},
		{7, []wire.Place{at(5, 0)}, "ends before key 7"},
		{1 << 60, []wire.Place{at(1<<60-1, 0)}, "got key 1152921504606846975 shard 0, want key 5 shard 0"},
		{6, []wire.Place{at(4, 0), at(5, 0)}, "place 0 of the answer: got key 4 shard 0"},
		{8, []wire.Place{at(5, 0), at(7, 0)}, "place 1 of the answer: got key 7 shard 0, want key 5 shard 1"},
		{6, []wire.Place{at(5, 1), at(5, 0)}, "got key 5 shard 1, want key 5 shard 0"},
		{7, []wire.Place{at(5, 0), at(6, 1)}, "got key 6 shard 1, want key 6 shard 0"},
		{7, []wire.Place{at(6, 0)}, "got key 6 shard 0, want key 5 shard 0"},
	} {
		err := checkPlaces(&wire.Places{Next: c.next, Keys: c.next, Places: c.places}, 5)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("places %v, next %d: got error %v, want %q", c.places, c.next, err, c.want)
		}
	}
}
