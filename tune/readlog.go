package tune

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// maxLine bounds a line of the log. What goes into one is bounded far below.
const maxLine = 16 << 20

// A logEnd says how far a log can be read.
type logEnd struct {
	Lines int
	Bytes int64
	// Torn is the number of bytes after that which a crash left of an unsynced batch; Why is
	// the error of the first line in them.
	Torn int64
	Why  error
	// CRLF says that lines end in a carriage return and a newline.
	CRLF bool
}

// ReadLog calls yield for the events of a study's log, in order. path is the study's folder or the
// log file. What a crash may leave at its end, a line without its end or zeros that stand for
// lines, had no effect and is skipped; any other damage is an error that names the line. Lines may
// end in a carriage return and a newline, as some editors and git write them. ReadLog returns an
// error of yield unchanged.
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
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return end, nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLong) {
			return end, fmt.Errorf("tune: read log %s line %d: %w", path, end.Lines+1, err)
		}
		e, bad := Event{}, err
		if err == nil {
			text, crlf := lineText(line)
			end.CRLF = end.CRLF || crlf
			if e, bad = d.event(text); bad == nil && e.Seq != seq {
				// Whole and summed, but not the next: lines are missing or there
				// twice.
				return end, fmt.Errorf("tune: log %s line %d: got event %d, want event %d: lines are missing or repeated; %s", path, end.Lines+1, e.Seq, seq, fromACopy)
			}
		} else if errors.Is(err, io.EOF) {
			bad = fmt.Errorf("%d bytes without an end of line", len(line))
		}
		if bad != nil {
			end.Torn, end.Why = size-end.Bytes, bad
			torn := unsynced(line, err)
			intact, more := restOf(lines, &d, end.Lines+2)
			switch {
			case intact > 0:
				return end, fmt.Errorf("tune: log %s line %d is damaged: %w; line %d after it is intact; %s", path, end.Lines+1, bad, intact, fromACopy)
			case (!torn || !more) && end.Lines == 0:
				return end, fmt.Errorf("tune: log %s line 1 and all after it, %d bytes, are damaged: %w; %s", path, end.Torn, bad, fromACopy)
			case !torn || !more:
				return end, fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; %s, or cut it after its first %d bytes to go on without what follows",
					path, end.Lines+1, end.Torn, bad, fromACopy, end.Bytes)
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

// fromACopy says how to go on with a log that another program has changed: from a copy of it.
const fromACopy = "a crash does not cause this: restore the file from a copy"

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// readLine returns a line with its newline. It is good until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for {
		line, err = r.ReadSlice('\n')
		if len(long) <= maxLine {
			long = append(long, line...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if err == nil && len(long) > maxLine {
		err = errLong
	}
	return long, err
}

// lineText is a line without its end, and whether that has a carriage return.
func lineText(line []byte) (text []byte, crlf bool) {
	text = line[:len(line)-1]
	return bytes.CutSuffix(text, []byte("\r"))
}

// lineStart is how each line begins, and nothing within a line: quotes in texts are escaped.
var lineStart = []byte(`{"seq":`)

// unsynced says whether a bad line can be one of a batch that was being written in a crash, which
// nobody has heard of: it has no end, or zeros where a part of it had not reached the disk. err is
// readLine's.
func unsynced(line []byte, err error) bool {
	return bytes.IndexByte(line, 0) >= 0 || errors.Is(err, io.EOF) && bytes.Count(line, lineStart) <= 1
}

// restOf reads what is left. intact is the number of the first whole line, 0 if there is none; torn
// says that all bad lines can be those of an unsynced batch.
func restOf(r *bufio.Reader, d *decoder, number int) (intact int, torn bool) {
	for torn = true; ; number++ {
		line, err := readLine(r)
		if err == nil {
			text, _ := lineText(line)
			if _, bad := d.event(text); bad == nil {
				return number, torn
			}
		} else if !errors.Is(err, errLong) && len(line) == 0 {
			return 0, torn
		}
		if torn = torn && unsynced(line, err); err != nil && !errors.Is(err, errLong) {
			return 0, torn
		}
	}
}
