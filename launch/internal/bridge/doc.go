// Package bridge is the Go end of the Python client: `launch role bridge` is the member of the job
// for one Python process, its parent. It holds the kvstore.Store, lends Python memory that both
// have mapped, and talks to it in packets over a socket pair (SOCK_SEQPACKET). docs/design has the
// reasons in note 58; this comment is the contract.
//
//	launch role bridge --socket N --parent N --stderr N
//
// The numbers are file descriptors: the bridge's end of the socket pair; a pidfd of Python (without
// it the bridge looks every 100 ms whether its parent is another one); and where the log goes after
// the hello. Until then it goes to the standard error that Python gave, for the exception of a
// start that fails.
//
// # Packets
//
// A packet has 1 to 65,536 bytes. The first byte is its kind. All numbers are little endian.
//
//	J  both ways  JSON: {"id": 1, "op": "barrier", ...}; {"id": 1, "result": {...}} or {"id": 1, "error": {...}}
//	N  to Python  JSON without an answer: {"note": "hello" | "waiting" | "moved" | "failed", ...}
//	X  to Go      an exchange, 48 bytes
//	x  to Python  the answer of an exchange: 16 bytes, behind them the error as JSON
//
// The bridge sends the first packet, {"note": "hello", "protocol": 1, "release": "...", "pid": N}.
// Python's first request is join. Requests have numbers above 0 that are not used twice; request 0
// gets no answer. At most 64 requests may be under way, besides cancel, close and abort; one more is
// an error of class Full. They run at the same time, and their answers come as they end.
//
// An error is {"class": "...", "text": "...", "key": "...", "final": bool}: see errorClasses. Key is
// that of the first key that failed, if one did; final says that no restart can mend it.
//
// A packet that is none of these, such as an exchange of another length or number than the next,
// ends the session: the bridge sends the note failed, of class Protocol, and leaves the job as after
// the death of Python. An argument that cannot be is an error of class Usage, and changes nothing.
//
// # Memory
//
// The request memory makes a region: slots of float32 values in one file without a name, whose
// descriptor comes with the answer. Python maps the whole of it (MAP_SHARED). Slots of 64 KiB and
// more begin with a page and have their pages to themselves; servers of this host read and write
// them in place. Region 0 comes with the answer of join and has the completion words.
//
// A loan that a server does not give back, because it died or the call timed out, ends with other
// pages for the bridge (shm.Block.Detach). Python's mapping of the slot would then be stale. So the
// bridge copies the slot to a new file, maps that at the place of the slot, and sends
//
//	{"note": "moved", "region": 3, "offset": 65536, "bytes": 262144}
//
// with the file's descriptor, before the completion word and the answer of the exchange that had the
// slot. Python maps the file's bytes at that offset of the region (mmap with MAP_FIXED), so that
// every array there stays valid. Only the slot moves: no other exchange and no other slot is
// concerned, and nobody writes to the slot meanwhile, since its exchange is not answered. Python
// must read the note before it reads the slot: the completion word says so (3), and the answer comes
// behind the note. A request that had the slot, such as push, is answered behind the note, too.
//
// # Exchanges
//
// The request plan names keys and their slots once; an exchange is one packet for any run of its
// entries (see exchangeBytes). It begins as its packet is read, in the turn under way, and ends with
// its completion word: exchange n writes n·4 + state to word n mod 1,024 (see stateDone). From then
// on its slots are Python's, and its keys may be exchanged again. A key in an exchange under way is
// refused in another.
//
// An exchange with flagAnswer is answered when it and all before it have ended, with the first error
// that no answer before had; the error has the exchange's number. One that fails without flagAnswer
// sends the note {"note": "failed", "number": N, "error": {...}} before its completion word.
//
// At most 512 exchanges may be under way; one more fails at once, with class Full. Python must read:
// more than 1,024 answers that wait for room in the socket end the session, and so do 1,024 requests
// without an answer that was read.
//
// # Waits and ends
//
// After 2 s, and every 2 s from then on, the log says whom a call waits for, and the note
// {"note": "waiting", "call", "key", "round", "seconds", "waiting_for"} says the same. Such notes are
// dropped where Python does not read.
//
// The requests close and abort leave the job, and the bridge ends once they are answered. It also
// ends when the pidfd says that Python has, and with the socket: then the job hears that this worker
// failed. All of it takes at most 5 s. Signals that end programs are ignored, for Python decides what
// they mean.
package bridge
