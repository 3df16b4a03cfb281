package trialjob

import (
	"regexp"
	"strings"
)

// maxErrorLines bounds the newest lines of a standard error that are kept to find the one that says
// what went wrong.
const maxErrorLines = 500

// An errorLines keeps the newest lines of a standard error that are not blank.
type errorLines []string

func (e *errorLines) add(line string) {
	line = strings.TrimRight(line, " \t\r")
	if strings.TrimSpace(line) == "" {
		return
	}
	if len(*e) == maxErrorLines {
		*e = append((*e)[:0], (*e)[maxErrorLines/2:]...)
	}
	*e = append(*e, line)
}

var (
	usageLine = regexp.MustCompile(`(?i)^usage\b`)
	saysError = regexp.MustCompile(`(?i)\berror\b`)
	// seeHelp is a line behind an error that names where the usage is told.
	seeHelp = regexp.MustCompile(`(?i)^\W*(see|try|run|use|for)\b.*\bhelp\b`)
	// traceback begins what Python prints of an exception: lines of the stack, which are
	// indented, and then the exception, whose text may have several lines.
	traceback = regexp.MustCompile(`^(Traceback \(most recent call last\):|  File ".*", line \d+)`)
)

// text is the line that says what went wrong; "" if there is none. Most programs say it last.
// Behind it may stand a text of the program's usage, a line that says where to find it, or the
// stacks of a Go program that panicked.
func (e errorLines) text() string {
	if line := e.exception(); line != "" {
		return line
	}
	usage := -1
	for i, line := range e {
		switch {
		case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
			return line
		case strings.HasPrefix(line, "Incorrect Usage: "):
			return line
		case usage < 0 && usageLine.MatchString(line):
			usage = i
		}
	}
	if usage < 0 {
		if len(e) == 0 {
			return ""
		}
		last := len(e) - 1
		for last > 0 && seeHelp.MatchString(e[last]) {
			last--
		}
		return strings.TrimSpace(e[last])
	}
	// Python's argparse says the error after the usage.
	for _, line := range e[usage+1:] {
		if saysError.MatchString(line) && line[0] != ' ' && line[0] != '\t' {
			return line
		}
	}
	return strings.TrimSpace(e[max(usage-1, 0)])
}

// maxExceptionLines bounds the lines of an exception's text. If more lines follow, the program
// caught the exception and went on.
const maxExceptionLines = 20

// exception is the first line of the exception that ended a Python program; "" if none did.
func (e errorLines) exception() string {
	for i := len(e) - 1; i >= 0; i-- {
		if !traceback.MatchString(e[i]) {
			continue
		}
		for rest := e[i+1:]; len(rest) > 0; rest = rest[1:] {
			if line := rest[0]; line[0] != ' ' && line[0] != '\t' {
				if len(rest) > maxExceptionLines {
					return ""
				}
				return line
			}
		}
		return ""
	}
	return ""
}
