// Package tune is `launch tune`: it searches the hyper-parameters of a command, and shows, explains
// and replays searches.
//
// The search itself is package tune of the repository, its file is tune/study, its tables and
// pictures are tune/show. Here is what a command line adds to them: flags, signals, exit codes, and
// the sentences at the end that say how to go on.
package tune
