// Package page serves a live page about a job to browsers: who is there, who waits for whom, curves, the last steps, events.
//
//	scheduler <-- control protocol, once a second, only while someone watches -- Job --> Server --> browsers
//
// A Server knows nothing of what it shows: a Feed has that, of a job (package page's Job) or of a search. It gives each browser first the whole state, then what
// changed, by server-sent events. It only reads: nothing that a browser sends changes the job.
//
// Every request needs a session, which a browser gets for a token that is valid once. See Server for who else is kept out.
package page
