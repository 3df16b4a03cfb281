// Package tune is `launch tune`: it searches the hyper-parameters of a command, and shows, explains
// and replays searches.
//
// The search itself is package tune of the repository, its file is tune/study, its tables and
// pictures are tune/show. Here is what a command line adds to them: flags, signals, exit codes, and
// the sentences at the end that say how to go on.
//
// A search has a folder, which has at any time all that it needs to go on: --resume continues one
// that was killed. show, why, replay and export read the log in it alone, also while the search
// runs. hosts, add and remove ask the running search itself (internal/member/searchcontrol).
//
// After Ctrl-C or SIGTERM the running trials end, and a second signal does not wait for them.
// SIGUSR1 does the same and gives another exit code, by which a batch system knows that it is to
// start the search again.
package tune
