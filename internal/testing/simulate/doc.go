// Package simulate runs whole training jobs in one process, on fake time and a network in memory,
// with faults that a seed decides, and checks what must hold of every job.
//
// A Plan is what one seed decides: the job's size, its program, and a schedule of faults. Run
// carries it out inside a bubble of testing/synctest and returns a Report: what went wrong, how
// many faults of each kind were injected, and how long the job made no progress.
//
//	plan := simulate.NewPlan(seed, simulate.Config{})
//	synctest.Test(t, func(t *testing.T) { report = simulate.Run(plan) })
//
// # What must hold
//
// The programs make gradients whose sum shows who contributed. A recorder around every worker's
// store keeps what was pushed and what was pulled, also of workers that died. The checks use only
// these records:
//
//   - each value that a worker saw is the value before it plus whole contributions, each of them
//     once, and contains the contributions whose round was answered with it;
//   - nothing that was acknowledged is missing from the last value;
//   - workers saw the same values, and in the same step the same one;
//   - every example counted once an epoch in acknowledged steps;
//   - without a change of the membership, the parameters are those of a run without faults, bit for
//     bit;
//   - every process ends, cleanly if the job could go on; no wait is endless, and no connection is
//     left.
//
// # What a seed decides
//
// The plan, and the delay of each piece of bytes, so that messages overtake each other. Which of
// two goroutines that can run at the same instant runs first is decided by the Go scheduler and not
// by the seed: a failure that depends on it is repeated in some runs of its seed only.
package simulate
