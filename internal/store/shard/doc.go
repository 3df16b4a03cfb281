// Package shard is the state of one shard of one key: its value, the open round, the workers that
// have contributed to it, and the optimizer's state.
//
// Servers and in-process stores share it. It has no socket, no clock and no goroutine; a Meter, if
// there is one, gives the time and records the durations of rounds. Each Shard has one mutex: all
// of its methods may be called concurrently, and different shards never wait for each other.
//
// # Rounds
//
// In sync mode the open round closes when every member has contributed once: the set of
// contributors decides, never a count of messages. Contributions are added in rank order, those of
// a Member.Group first, so that a run repeats bit for bit: one that is next in order is added on
// arrival and its memory is released, others are held until their turn. (In wire.ModeAnyOrder all
// are added on arrival: no memory is held and a round closes sooner after its last contribution,
// but runs do not repeat bit for bit.) A member may be one round ahead (its contribution is held);
// two rounds ahead it has to wait. A contribution that is sent again counts once; another one for
// the same round is an error and is never added.
//
// When the round closes,
//
//	RuleOptimizer with an optimizer   the optimizer is applied once to the sum (divided by the sum of the weights
//	                                  where its reduction is "mean"), with the round as its step
//	RuleOptimizer without one         the sum replaces the value; of a key of rows, the summed rows replace those rows
//	                                  and the others stay
//	RuleAverage                       the sum divided by the sum of the weights replaces the value; where all weights
//	                                  are 0 the value stays
//
// A contribution may ask for norms and say by which factor the learning rate of its round is
// multiplied (wire.Step). If all contributions of a round ask, the squares of each and of their sum
// are taken while it is added, and the Version has the round's Norms. All must give the same rate.
//
// In async mode each contribution is a round of its own, applied on arrival; a pull may demand that
// the slowest member be at most some number of contributions behind. Under RuleAverage the value is
// the sum of the members' newest contributions over the sum of their weights.
//
// # Rows
//
// A shard of rows changes only the rows that a round names. In an open vocabulary rows are named by
// 64-bit IDs; a contribution's IDs are replaced by row numbers when it is accepted, and new rows
// are made then, with values that depend on seed, key and ID alone. After that it is like any other
// contribution, and rounds know nothing of IDs. A Spread says which shard has which row.
//
// # Parts
//
// A Shard is made of parts, each with its own fields and its own test. None knows the Shard or
// another part's state; what a part needs of another it gets as an argument, for one call.
//
//	membership      who contributes, in rank order and in the order of the sum
//	rounds, round   what has come for the open round and the next, and who may still come
//	sum, rowSum     what the contributions add up to, in which order
//	norms           the squares that are taken on the way
//	lending         memory of workers that is used where it lies
//	guard           which contributions are bad
//	updater, table  how a value changes by a sum
//	readers         the newest value, those who read it and those who wait
//	progress        who may have the value
//	replica         what the backup has
//	exampleCounts   how many examples came from whom
//	stopwatch       how long rounds take
//
// Four rules hold across them. A contribution that was accepted (Held) counts, whether or not its
// worker has had an answer, unless a Load replaces the state. A value that a reader holds never
// changes. No one sees a value that the backup cannot make. And the order of additions depends on
// ranks and hosts alone.
//
// # Use
//
//	s, err := shard.New(shard.Config{Name: "weight", Form: wire.FormDense, Rule: wire.RuleOptimizer, Length: n, Size: n, Shards: 1}, value)
//	s.SetMembers(1, []shard.Member{{Node: 1, Rank: 0}})
//	data := pool.Get(4 * n)                    // fill data.Float32s(n)
//	status, err := s.Push(shard.Contribution{Generation: 1, Node: 1, Round: r, Seq: r + 1, Weight: 1, Data: data})
//	v, wait, err := s.Pull(shard.Want{Node: 1, Round: r + 1})
//	if wait != nil {
//		v, err = wait.Await(ctx)
//	}
//	copy(out, v.Float32s())
//	v.Release()
//
// A Version is the value after some round. It does not change while it is held, and holding it
// delays no round: later rounds use other memory. In steady state a round allocates nothing.
package shard
