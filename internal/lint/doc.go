// Package lint holds the picture of the packages: who may import whom.
//
//	launch (command)   examples/*   bench/*   cmd/*    may use anything below
//	tune                                               a search over a plain function
//	worker        server        schedulernode          the three roles, which never import each other
//	adapt                                              batch size and replicas
//	kvstore  ->  cluster  ->  transport  ->  wire      kvstore/shard is shared with servers and the scheduler
//	nn    optim    sampler    data    checkpoint    metrics
//	internal/...
//
// It also has the table of the files that may depend on the wall clock, which may jump.
//
// It has no code but its tests; the first reads the imports of every file that is no test. A new package needs a row in the
// test's table, and with it a thought about where it stands.
package lint
