// Package lint holds the picture of the packages: who may import whom.
//
//	launch (command)   examples/*   bench/*             may use anything below
//	tune                                               a search over a plain function, a command, or distributed jobs
//	worker        server        schedulernode          the three roles, which never import each other
//	adapt                                              batch size and replicas
//	kvstore    nn    optim    sampler    data    checkpoint    metrics
//	internal/member/cluster -> internal/store/transport -> internal/store/wire      how nodes talk; internal/store/shard: what servers and in-process stores share
//	internal/{scheduler, shardserver, rollcall}        what the roles and stores are made of
//	internal/{ssh, agent, hosts, gpus, process}        how processes are started on hosts
//	internal/compute                                   executors of nn
//	internal/{f32, pool, shm, vfs, cuda, ...}          machinery; internal/testing: harnesses
//
// It also has the table of the files that may depend on the wall clock, which may jump, and the
// list of words and names that must not come back because a reader stumbles over them.
//
// Further tests hold what is easily forgotten: an example for each public package, the index of the
// design notes, and that what CONTRIBUTING.md and the pages for users name is there.
//
// It has no code but its tests, and package count, which measures trees and fails on nothing; the
// first reads the imports of every file that is no test. A new package needs a row in the test's
// table, and with it a thought about where it stands.
package lint
