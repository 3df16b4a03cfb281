package command

import "fmt"

// ExitUsage is the exit code for a command line that makes no sense.
const ExitUsage = 2

// A UsageError is one about the command line. Whoever runs the command prints it with a hint at
// --help, and ends with ExitUsage.
type UsageError struct{ error }

// Usage makes an error one about the command line. The message stays as it is.
func Usage(err error) error { return UsageError{err} }

// Usagef makes an error about the command line. It puts launch's name before the message.
func Usagef(format string, args ...any) error {
	return UsageError{fmt.Errorf("launch: "+format, args...)}
}

// An ExitError ends launch with a code and no further message: whoever returns it has said what is
// wrong, or the code is that of a process which has.
type ExitError int

// Error implements error. Nobody prints it.
func (e ExitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// CheckNumber refuses a number of the command line that is out of bounds; what names the things
// that are counted, and may be empty.
func CheckNumber(flag string, n, least, most int, what string) error {
	if n < least || n > most {
		return Usagef("%s is %d, want %d to %d%s", flag, n, least, most, what)
	}
	return nil
}
