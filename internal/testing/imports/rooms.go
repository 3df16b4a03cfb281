package imports

import "strings"

// A Room is a box in the picture of the packages: folders that are understood together.
type Room struct {
	// Name is the box's title.
	Name string

	// Folders belong to the room with all that is below them.
	Folders []string
}

// Floors are the rooms of the picture from the top down. A room may import those of the floors
// below it, and none of its own floor or above.
func Floors() [][]Room {
	return [][]Room{
		{{"examples, bench", []string{"examples", "bench"}}, {"launch", []string{"launch"}}},
		{
			{"tune", []string{"tune"}},
			{"worker, server, schedulernode", []string{"worker", "server", "schedulernode"}},
			{"version", []string{"version"}},
		},
		{
			{"internal/hosts", []string{"internal/hosts"}},
			{"kvstore", []string{"kvstore"}},
			{"adapt", []string{"adapt"}},
		},
		{{"internal/member", []string{"internal/member"}}},
		{{"internal/store", []string{"internal/store"}}},
		{
			{"checkpoint, metrics", []string{"checkpoint", "metrics"}},
			{"data, sampler", []string{"data", "sampler"}},
			{"nn, optim", []string{"nn", "optim"}},
		},
		{{"internal/compute", []string{"internal/compute"}}},
		{{"internal/observe", []string{"internal/observe"}}},
		{{"internal/files", []string{"internal/files"}}},
	}
}

// RoomOf returns the floor of a package's room, numbered from the top, and the room. It returns
// false for packages outside of the picture: tools, documents, and what only tests import.
func RoomOf(pkg string) (floor int, room Room, ok bool) {
	if OfTests(pkg) {
		return 0, Room{}, false
	}
	for i, rooms := range Floors() {
		for _, r := range rooms {
			for _, folder := range r.Folders {
				if pkg == folder || strings.HasPrefix(pkg, folder+"/") {
					return i, r, true
				}
			}
		}
	}
	return 0, Room{}, false
}

// OfTests reports whether only tests may import a package, as its path says: one of its folders is
// internal/testing or has a name that ends in test.
func OfTests(pkg string) bool {
	return strings.Contains(pkg+"/", "test/") || strings.HasPrefix(pkg+"/", "internal/testing/")
}
