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
	s := scanner[E]{path: path, decode: decode, lines: bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<18), size: size}
	err = s.scan(yield)
	return s.end, err
}

// A scanner reads the lines of one log.
type scanner[E any] struct {
	path   string
	decode Decoder[E]
	lines  *bufio.Reader
	// size is that of the whole log, and end how far it was read.
	size int64
	end  End
}

// scan calls yield for the events of all lines. The first is number 0.
func (s *scanner[E]) scan(yield func(*E) error) error {
	for seq := uint64(0); ; seq++ {
		line, err := readLine(s.lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return s.torn(fmt.Errorf("%d bytes without an end of line", len(line)), unsynced(line, err))
		case errors.Is(err, errLong):
			return s.torn(err, unsynced(line, err))
		case err != nil:
			return fmt.Errorf("tune: read log %s line %d: %w", s.path, s.end.Lines+1, err)
		}
		text, crlf := lineText(line)
		s.end.CRLF = s.end.CRLF || crlf
		e, got, err := s.decode(text)
		if err != nil {
			return s.torn(err, unsynced(line, nil))
		}
		// The line is whole and has its sum, but is not the next one.
		if got != seq {
			return fmt.Errorf("tune: log %s line %d: got event %d, want event %d: lines are missing or repeated; %s", s.path, s.end.Lines+1, got, seq, FromACopy)
		}
		if err := yield(&e); err != nil {
			return err
		}
		s.end.Lines++
		s.end.Bytes += int64(len(line))
	}
}

// torn judges a log whose line behind end is bad: its end was torn off by a crash, which is no
// error, or it is damaged. possible says that a crash can leave the bad line. The lines after it
// decide: a crash leaves nothing whole behind what it has torn.
func (s *scanner[E]) torn(bad error, possible bool) error {
	s.end.Torn, s.end.Why = s.size-s.end.Bytes, bad
	number := s.end.Lines + 1
	intact, more := s.rest(number + 1)
	switch {
	case intact > 0:
		return fmt.Errorf("tune: log %s line %d is damaged: %w; line %d after it is intact; %s", s.path, number, bad, intact, FromACopy)
	case possible && more:
		return nil
	case s.end.Lines == 0:
		return fmt.Errorf("tune: log %s line 1 and all after it, %d bytes, are damaged: %w; %s", s.path, s.end.Torn, bad, FromACopy)
	}
	return fmt.Errorf("tune: log %s line %d and all after it, %d bytes, are damaged: %w; %s, or cut it after its first %d bytes to go on without what follows",
		s.path, number, s.end.Torn, bad, FromACopy, s.end.Bytes)
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

// rest reads what is left, of which the first line has this number. intact is the number of the
// first whole line, 0 if there is none; torn says that all bad lines can be those of an unsynced
// batch.
func (s *scanner[E]) rest(number int) (intact int, torn bool) {
	for torn = true; ; number++ {
		line, err := readLine(s.lines)
		if err == nil {
			text, _ := lineText(line)
			if _, _, bad := s.decode(text); bad == nil {
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
