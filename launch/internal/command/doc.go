// Package command is what the commands of launch have in common, and its folders are the commands.
//
// launch itself and each of its subcommands is a package below this one, with a function Run that
// takes the arguments behind the command's name and returns an exit code. It ends neither the
// process nor a goroutine of somebody else, and writes to the outputs that it is given, so that
// tests call it like any other function.
//
// A command says what went wrong by one of three kinds of errors, and the code follows from the
// kind: a UsageError is about the command line and gives 2, an ExitError has been said already and
// gives its own code, and any other error is printed and gives 1. An Output turns a 0 into a 1 when
// a write to the standard output was lost.
//
// The machinery that the commands use (launch/internal/job and its like) knows nothing of them, nor
// of what processes of a job do.
package command
