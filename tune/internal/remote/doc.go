// Package remote lets a trial run in other processes than its search.
//
// The search listens at an address, and gives each attempt a token. The trial's
// processes find both in their environment, dial, and speak JSON, one object a line of
// at most 1 MiB, the process first:
//
//	→ {"hello":{"token":"...","rank":0}}
//	← {"task":{"study":"mnist","trial":7,"attempt":1,"params":{"lr":0.01},"seed":42,...}}
//	→ {"report":{"step":1,"metrics":{"accuracy":0.5,"loss":"NaN"}}}
//	← {"answer":{"action":"continue"}}
//	→ {"checkpoint":{"step":1}}
//	← {"folder":{"dir":"/..."}}          the process writes into it; "": it was kept before
//	→ {"written":{"error":""}}
//	← {"kept":{}}
//	→ {"done":{"error":"","class":""}}
//	← {"bye":{}}
//
// A request that cannot be served is answered by {"error":{"text":"..."}}, and the
// connection goes on; one that is no request ends it. Numbers that JSON does not have are
// the words NaN, +Inf and -Inf.
//
// Of a trial of several workers each dials with its rank. Rank 0's reports count; a report
// of another rank waits for rank 0's of the same step and gets the same answer, so that
// all make the same steps. Only rank 0 keeps checkpoints.
package remote
