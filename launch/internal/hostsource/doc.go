// Package hostsource keeps the hosts of a running job in line with an external list, such as a
// cloud's instances with a given tag.
//
// A source is a command (launch --hosts-command) or an address (--hosts-url) that is asked again
// and again. Its answer has a JSON object for each host, one on each line or all in one array:
//
//	{"host":"d3","slots":2,"gpus":1,"cpus":16,"state":"running"}
//
// host is as in a hosts file: [user@]host[:port]. The rest may be left out. Other fields are
// ignored. The state says what to do with the host:
//
//	running, ready, or none               the host gets workers
//	pending, provisioning, starting, ...  nothing yet
//	draining, stopping, terminated, ...   its workers leave
//	any other word                        nothing changes for the host, and a warning names the word
//
// What the answers ask for is written into host_worker (package hostworker), as an operator's edit
// is. The job sees no difference. Operators and the source do not fight over a host:
//
//   - A host is added once, when the source first says that it is running. An operator who removes
//     it then has the last word, until the source has said in between that it is not running.
//   - A host that an operator added is never removed, unless the source has named it, too.
//
// An answer may be wrong. An instance may be missing for a moment from a list that is eventually
// consistent, a filter may be mistyped, a region may be down. A job that loses its hosts to a wrong
// answer loses hours of work. One that keeps a host for some seconds too long loses nothing,
// because the job notices by itself when a host is really gone. So:
//
//   - A command that fails, does not end in time or writes something else than a whole list gives
//     no answer. The job keeps its hosts.
//   - A host that is no longer named leaves with the second answer in a row without it. One that is
//     named as stopping leaves at once.
//   - An answer that would remove more than half of the hosts that the source has in the job
//     removes none of them. An empty list is such an answer. The removals are held back for as long
//     as the answers ask for so many: time does not make a wrong filter right, and half of the rest
//     with each answer would soon be all. An operator can remove the hosts (launch ctl remove,
//     host_worker), or start the job with --hosts-force, which turns this rule off.
package hostsource
