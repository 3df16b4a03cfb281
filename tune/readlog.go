package tune

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/vfs"
)

// maxLine bounds a line of the log. What goes into one is bounded far below.
const maxLine = 16 << 20

// A logEnd says how far a log can be read.
type logEnd struct {
	Lines int
	Bytes int64
	// Torn is the number of bytes of incomplete lines after that, left by a crash; Why is
	// the error of the first.
	Torn int64
	Why  error
}

// ReadLog calls yield for the events of a study's log, in order. path is the study's folder or the
// log file. Incomplete lines at its end, which a crash may leave and which had no effect, are
// skipped; any other damage is an error that names the line. ReadLog returns an error of yield
// unchanged.
func ReadLog(path string, yield func(Event) error) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, logName)
	}
	_, err := readLog(vfs.OS{}, path, func(e *Event) error { return yield(*e) })
	return err
}

func readLog(fsys vfs.FS, path string, yield func(*Event) error) (logEnd, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return logEnd{}, fmt.Errorf("tune: read log: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return logEnd{}, fmt.Errorf("tune: read log %s: %w", path, err)
	}
	return scanLog(path, io.NewSectionReader(f, 0, size), size, 0, yield)
}

// scanLog reads lines of which the first is event number seq. The size is that of what r has.
func scanLog(path string, r io.Reader, size int64, seq uint64, yield func(*Event) error) (logEnd, error) {
	lines := bufio.NewReaderSize(r, 1<<18)
	var d decoder
	var end logEnd
	for {
		line, err := readLine(lines)
		if err == io.EOF && len(line) == 0 {
			return end, nil
		}
		if err != nil && err != io.EOF && !errors.Is(err, errLong) {
			return end, fmt.Errorf("tune: read log %s line %d: %w", path, end.Lines+1, err)
		}
		e, bad := Event{}, err
		if err == nil {
			if e, bad = d.event(line[:len(line)-1]); bad == nil && e.Seq != seq {
				// Whole and summed, but not the next: lines are missing or there twice.
				return end, fmt.Errorf("tune: log %s line %d: got event %d, want event %d", path, end.Lines+1, e.Seq, seq)
			}
		} else if err == io.EOF {
			bad = fmt.Errorf("%d bytes without an end of line", len(line))
		}
		if bad != nil {
			end.Torn, end.Why = size-end.Bytes, bad
			if at, ok := goodLine(lines, &d, end.Lines+2); ok {
				return end, fmt.Errorf("tune: log %s line %d is damaged: %w; line %d after it is intact", path, end.Lines+1, bad, at)
			}
			return end, nil
		}
		if err := yield(&e); err != nil {
			return end, err
		}
		end.Lines++
		end.Bytes += int64(len(line))
		seq++
	}
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns a line with its newline. It is good until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := bytes.Clone(line)
	for {
		line, err = r.ReadSlice('\n')
		if len(long) <= maxLine {
			long = append(long, line...)
		}
		if err != bufio.ErrBufferFull {
			break
		}
	}
	if err == nil && len(long) > maxLine {
		err = errLong
	}
	return long, err
}

// goodLine looks for a whole line in what is left, and returns its number.
func goodLine(r *bufio.Reader, d *decoder, number int) (int, bool) {
	for ; ; number++ {
		line, err := readLine(r)
		if err == nil {
			if _, bad := d.event(line[:len(line)-1]); bad == nil {
				return number, true
			}
		} else if !errors.Is(err, errLong) {
			return 0, false
		}
	}
}
