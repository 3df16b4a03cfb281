// Package page serves a live page about a job to browsers: who is there, who waits for whom,
// curves, the last steps, events.
//
//	scheduler <-- control protocol, once a second, only while a page is open -- Feed --> Server --> browsers
//
// A Server knows nothing of what it shows. A Feed does: jobpage.Feed of a job, NewSearch of a
// search. The Server sends each browser first the whole state, then what changed, as server-sent
// events. It is read-only: no request of a browser changes the job.
//
// Every request needs a session, which a browser gets for a token that is valid once. See Server
// for the other conditions.
package page
