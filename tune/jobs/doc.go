// Package jobs has the words for trials that run as jobs: what one trial needs (Resources), where
// the replicas of an elastic trial run (Placement), what an allocator is asked and answers
// (AllocationRequest, Share), and the nodes that a cluster's scheduler has given to a search
// (Cluster).
//
// A replica is one worker of an elastic trial, and a slot is the place of one on a node. An
// allocator divides the slots of all nodes among the running trials:
//
//	request := jobs.AllocationRequest{
//		Cause: "trial 1 started",
//		Nodes: []jobs.NodeSlots{{Node: "d1", Slots: 2}},
//		Jobs:  []jobs.State{{Trial: 0, On: jobs.Placement{{Node: "d1", Replicas: 2}}}, {Trial: 1}},
//	}
//	shares := []jobs.Share{
//		{Trial: 0, On: jobs.Placement{{Node: "d1", Replicas: 1}}, Rule: "makes room for trial 1"},
//		{Trial: 1, On: jobs.Placement{{Node: "d1", Replicas: 1}}, Rule: "starts"},
//	}
//	err := request.Check(shares) // nil: no slot is given twice
//
// The package starts nothing. tune.Jobs runs the jobs.
package jobs
