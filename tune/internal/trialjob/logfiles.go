package trialjob

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// maxLogErrors is how many different errors of log files are told.
const maxLogErrors = 3

// logFiles are the log files of an attempt. Each is made when something is first written to it.
type logFiles struct {
	folder string
	files  map[string]*os.File
	errs   []error
}

// newLogFiles opens no file yet.
func newLogFiles(folder string) logFiles {
	return logFiles{folder: folder, files: make(map[string]*os.File)}
}

// write appends to a file. close tells what could not be written.
func (l *logFiles) write(name string, text []byte) {
	f, err := l.files[name], error(nil)
	if f == nil {
		if f, err = os.Create(filepath.Join(l.folder, name)); err == nil {
			l.files[name] = f
		}
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil || len(l.errs) == maxLogErrors {
		return
	}
	if !slices.ContainsFunc(l.errs, func(earlier error) bool { return earlier.Error() == err.Error() }) {
		l.errs = append(l.errs, err)
	}
}

// close closes those that were opened, and says what could not be written.
func (l *logFiles) close() error {
	for _, f := range l.files {
		if err := f.Close(); err != nil {
			l.errs = append(l.errs, err)
		}
	}
	return errors.Join(l.errs...)
}
