// Package remote connects the processes of a trial with its search.
//
// The search listens at an address and makes a token for each attempt. The trial's
// processes have both in their environment. They connect and exchange JSON, one object
// in each frame (package framing) of at most 1 MiB; the process sends first:
//
//	→ {"hello":{"version":2,"token":"...","rank":0}}
//	← {"task":{"study":"mnist","trial":7,"attempt":1,"params":{"lr":0.01},"seed":42,...}}
//	→ {"report":{"step":1,"metrics":{"accuracy":0.5,"loss":"NaN"}}}
//	← {"answer":{"action":"continue"}}
//	→ {"checkpoint":{"step":1}}
//	← {"folder":{"dir":"/..."}}          the process writes into it; "": saved before
//	→ {"written":{"error":""}}
//	← {"kept":{}}
//	→ {"done":{"error":"","class":""}}
//	← {"bye":{}}
//
// A request that fails is answered by {"error":{"text":"..."}}, and the connection stays open. Any
// other message closes it. A process of another version is refused by name; those of version 1,
// which spoke in lines of JSON, are answered in a line. NaN, +Inf and -Inf, which JSON does not
// have, are strings.
//
// Each worker of a trial connects with its rank. Rank 0's reports count; a report of another rank
// waits for rank 0's report of the same step and gets the same answer, so that all ranks take the
// same steps. Where rank 0's connection closes without done, that report waits for the end of the
// trial, for 30 s at most: how rank 0's process ended says what went wrong, and no other process is
// to end before. Only rank 0 saves checkpoints. Of an elastic trial, whose workers come and go, the
// worker with the lowest number that is there counts as rank 0.
//
// A process that does not have the search's files (it does not find the marker of its task) writes
// its checkpoint into a folder of its own machine, and copies it in a second connection between
// folder and written:
//
//	→ {"hello":{"version":2,"token":"...","rank":0,"copy":"save"}}
//	← {"from":{"entry":0,"offset":0}}
//	→ {"piece":{"sum":1234567}}          and a frame of at most 1 MiB, whose CRC-32C is sum
//	← {"whole":{}}
//
// The pieces are a tar archive of the files and folders, by name. With "copy":"restore" the process
// says from where, and the search sends. If the connection breaks, or a sum is wrong, another
// connection goes on where the receiver is, with an archive of what it lacks: so many entries are
// there, and so many bytes of the next one, of whose file the archive has the rest. Names are paths
// in the folder; there are at most 65536, and a limit of bytes.
//
// A command that keeps its state in a folder is started by a process that connects in its place.
// The workers on a host share the folder: the first rank there makes it, and the others wait for
// its path.
//
//	→ {"ready":{"dir":"/..."}}           the first rank on the host
//	← {"kept":{}}
//	→ {"await":{}}                       another rank
//	← {"folder":{"dir":"/..."}}
//
// The first rank removes the folder when its command has ended. If that went well it first waits
// for the others on the host, which may still use it.
//
//	→ {"others":{}}                      the first rank on the host
//	← {"kept":{}}                        when those that have connected have ended
//
// Where the first rank's connection closes before it has the folder and without done, the others
// wait for the end of the trial, as they do for a report.
//
// Where such a trial has several hosts, a checkpoint has the files of rank 0's host, and those that
// commands have written on the others. The first rank on each other host keeps a second connection,
// in which the search asks for its files once rank 0 has taken its own. They come as those of rank
// 0 ("copy":"save"). One that is missing fails the checkpoint, and the one before stays.
//
//	→ {"hello":{"version":2,"token":"...","rank":2,"copy":"parts"}}
//	← {"checkpoint":{"step":1}}
//	→ {"written":{"error":"","copied":true}}
//	← {"bye":{}}                         when rank 0 has ended
//
// A worker of an elastic trial first asks for a slot, in a connection that it keeps until
// all of its processes have ended:
//
//	→ {"hello":{"version":2,"token":"...","rank":3,"host":"d1"}}
//	← {"held":{"cpus":[2],"gpus":["GPU-..."]}}
package remote
