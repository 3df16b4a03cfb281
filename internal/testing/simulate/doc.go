// Package simulate runs whole training jobs in one process, on fake time and a network in memory, with faults that a seed decides, and
// checks what must hold of every job.
//
// A Plan is what one seed decides: the job's size, its program, and a schedule of faults. Run carries it out inside a bubble of
// testing/synctest and returns a Report: what went wrong, how many faults of each kind were injected, and how long the job made
// no progress.
//
//	plan := simulate.NewPlan(seed, simulate.Config{})
//	synctest.Test(t, func(t *testing.T) { report = simulate.Run(plan) })
//
// # What must hold
//
// The programs make gradients of which a sum tells who contributed. A recorder around every worker's store keeps what was
// pushed and what came back, also of workers that died. From these records alone the checks follow:
//
//   - each value that anybody saw is the value before it plus whole contributions, each of them once, and those whose round came
//     back with that value are in it;
//   - nothing that was acknowledged is missing from the last value;
//   - workers saw the same values, and in the same step the same one;
//   - every example counted once an epoch in steps that were acknowledged;
//   - without a change of the members, the parameters are those of a run without faults, bit for bit;
//   - every process ends, cleanly if the job could go on; no wait is endless, and no connection is left.
//
// # What a seed decides
//
// The plan, and how long each piece of bytes is under way, so that messages overtake each other. Which of two goroutines that can run at
// the same instant runs first is the Go scheduler's choice and no seed's: a failure that needs such luck comes back in some of the runs of its seed.
package simulate
