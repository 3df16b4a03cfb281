package logfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// maxLine bounds a line of the log, in bytes. What goes into one is bounded far below.
const maxLine = 16 << 20

// An End says how far a log can be read.
type End struct {
	Lines int
	Bytes int64
	// Torn is the number of bytes after that which a crash left of an unsynced batch; Why is
	// the error of the first line in them.
	Torn int64
	Why  error
	// CRLF says that lines end in a carriage return and a newline.
	CRLF bool
}

// A Decoder reads a line without its end, and returns the number of its event. It keeps nothing of
// the line.
type Decoder[E any] func(line []byte) (e E, seq uint64, err error)

// Read calls yield for the events of the log at a path, in order. It returns an error of yield
// unchanged.
func Read[E any](fsys vfs.FS, path string, decode Decoder[E], yield func(*E) error) (End, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return End{}, fmt.Errorf("tune: read log: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return End{}, fmt.Errorf("tune: read log %s: %w", path, err)
	}
	return scan(path, io.NewSectionReader(f, 0, size), size, decode, yield)
}

// scan reads the lines of r, which has size bytes. The first is that of event 0.
func scan[E any](path string, r io.Reader, size int64, decode Decoder[E], yield func(*E) error) (end End, err error) {
	lines := bufio.NewReaderSize(r, 1<<18)
	for seq := uint64(0); ; seq++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return end, nil
		case errors.Is(err, io.EOF):
			bad := fmt.Errorf("%d bytes without an end of line", len(line))
			return torn(path, end, size, bad, unsynced(line, err), lines, decode)
		case errors.Is(err, errLong):
			return torn(path, end, size, err, unsynced(line, err), lines, decode)
		case err != nil:
			return end, fmt.Errorf("tune: read log %s line %d: %w", path, end.Lines+1, err)
		}
		text, crlf := lineText(line)
		end.CRLF = end.CRLF || crlf
		e, got, bad := decode(text)
		if bad != nil {
			return torn(path, end, size, bad, unsynced(line, nil), lines, decode)
		}
		// The line is whole and has its sum, but is not the next one.
		if got != seq {
			return end, fmt.Errorf("tune: log %s line %d: got event %d, want event %d: lines are missing or repeated; %s", path, end.Lines+1, got, seq, FromACopy)
		}
		if err := yield(&e); err != nil {
			return end, err
		}
		end.Lines++
		end.Bytes += int64(len(line))
	}
}

// torn judges a log whose line behind end is bad: its end was torn off by a crash, or it is damaged,
// which is an error. possible says that a crash can leave the bad line; lines has what follows it.
func torn[E any](path string, end End, size int64, bad error, possible bool, lines *bufio.Reader, decode Decoder[E]) (End, error) {
	end.Torn, end.Why = size-end.Bytes, bad
	intact, more := restOf(lines, decode, end.Lines+2)
	switch {
	case intact > 0:
		return end, fmt.Errorf("tune: log %s line %d is damaged: %w; line %d after it is intact; %s", path, end.Lines+1, bad, intact, FromACopy)
	case possible && more:
		return end, nil
	case end.Lines == 0:
		return end, fmt.Errorf("tune: log %s line 1 and all after it, %d bytes, are damaged: %w; %s", path, end.Torn, bad, FromACopy)
	}
	return end, fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; %s, or cut it after its first %d bytes to go on without what follows",
		path, end.Lines+1, end.Torn, bad, FromACopy, end.Bytes)
}

// FromACopy says how to go on with a log that another program has changed: from a copy of it.
const FromACopy = "a crash does not cause this: restore the file from a copy"

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
func restOf[E any](r *bufio.Reader, decode Decoder[E], number int) (intact int, torn bool) {
	for torn = true; ; number++ {
		line, err := readLine(r)
		if err == nil {
			text, _ := lineText(line)
			if _, _, bad := decode(text); bad == nil {
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
