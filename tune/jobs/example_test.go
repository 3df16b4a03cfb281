package jobs_test

import (
	"fmt"

	"github.com/paragon-train/paragon/tune/jobs"
)

// An allocator that gives the slot of a trial to another one, and one that gives a slot twice.
func Example() {
	request := jobs.AllocationRequest{
		Cause: "trial 1 started",
		Nodes: []jobs.NodeSlots{{Node: "d1", Slots: 2}},
		Jobs:  []jobs.State{{Trial: 0, On: jobs.Placement{{Node: "d1", Replicas: 2}}}, {Trial: 1}},
	}
	one, two := jobs.Placement{{Node: "d1", Replicas: 1}}, jobs.Placement{{Node: "d1", Replicas: 2}}
	fmt.Println(request.Check([]jobs.Share{{Trial: 0, On: one}, {Trial: 1, On: one}}))
	fmt.Println(request.Check([]jobs.Share{{Trial: 0, On: two}, {Trial: 1, On: one}}))
	fmt.Println(two.Location())
	// Output:
	// <nil>
	// trial 1 gets d1=1: node d1 has 0 slots left
	// d1 x2
}
