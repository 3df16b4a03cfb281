// Package outcomes plays a launcher's core and a scheduler's core together, from seeds, and notes
// what a user sees of the job: the outcome. It compares one version of the two with another.
//
// Everything that the two cores have between them is theirs: an outcome knows no message from one
// to the other. A Plan, which a seed decides, acts on the job from outside alone. Users add,
// remove and scale; they edit host_worker and send signals. Processes end, stand still and start
// slowly. Hosts are lost, refuse connections, come back, and are taken away with a notice. The
// scheduler dies and is started again, and messages between it and the launcher are late, lost or
// repeated. Workers and servers register, become ready, arrive and leave as the real ones do. Time
// is fake.
//
// At each rest, when nothing has happened for longer than any timer of the cores runs, the outcome
// notes what is there: the processes of each host, how many workers count, the statuses of hosts
// and servers, the number of workers that was asked for, host_worker, and what users were
// answered. At the end it notes the exit code and the failure's code. Ranks, process numbers, texts
// and times are left out: another version may choose others.
//
// # What makes two versions comparable
//
// Whatever chance decides about a process depends on the seed, its role, its host, and how many of
// that role were started there before, and on nothing else. So it does not matter in which order
// the cores ask for things that they do at the same time, nor how many messages they need.
//
// The package has no pointer to either core: the interfaces in cores.go are all that it knows of
// them, and a test of the launcher's core implements them (outcomes_adapter_test.go there).
package outcomes
