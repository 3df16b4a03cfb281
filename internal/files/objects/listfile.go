package objects

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
)

// A list's file is text, a line each:
//
//	paragon list 1
//	"s3://bucket/train" "prefix"
//	SHARED<tab>REST<tab>SIZE<tab>VERSION      for each object, in order
//	end COUNT CHECKSUM
//
// An object's name is the first SHARED bytes of the one before and REST. REST and VERSION are
// quoted as in Go, without the quotes. The checksum is CRC-32C of what stands before the last line.
const listMagic = "paragon list 1\n"

// A listWriter writes a list's file.
type listWriter struct {
	f     *os.File
	w     *bufio.Writer
	sum   hash.Hash32
	last  string
	count int
	line  []byte
}

// createList makes a list's file. The writer can be discarded even if there is an error.
func createList(path, url, prefix string) (*listWriter, error) {
	f, err := os.Create(path)
	if err != nil {
		return &listWriter{}, err
	}
	sum := crc32.New(castagnoli)
	l := &listWriter{f: f, sum: sum, w: bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)}
	_, err = fmt.Fprintf(l.w, "%s%q %q\n", listMagic, url, prefix)
	return l, err
}

// add adds an object.
func (l *listWriter) add(info Info) error {
	shared := 0
	for shared < min(len(l.last), len(info.Name)) && l.last[shared] == info.Name[shared] {
		shared++
	}
	l.last = info.Name
	l.count++
	b := strconv.AppendInt(l.line[:0], int64(shared), 10)
	b = append(appendQuoted(append(b, '\t'), info.Name[shared:]), '\t')
	b = append(strconv.AppendInt(b, info.Size, 10), '\t')
	l.line = append(appendQuoted(b, info.Version), '\n')
	_, err := l.w.Write(l.line)
	return err
}

// appendQuoted appends a text without the quotes that Go would put around it.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			n := len(b)
			b = strconv.AppendQuote(b, s)
			return append(b[:n], b[n+1:len(b)-1]...)
		}
	}
	return append(b, s...)
}

func unquote(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		// The line is let go, and the name stays.
		return strings.Clone(s), nil
	}
	return strconv.Unquote(`"` + s + `"`)
}

// keep ends the file and gives it its name.
func (l *listWriter) keep(path string) error {
	if err := l.w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.f, "end %d %08x\n", l.count, l.sum.Sum32())
	if err := errors.Join(err, l.f.Close()); err != nil {
		return err
	}
	return os.Rename(l.f.Name(), path)
}

// discard removes a file that is not kept.
func (l *listWriter) discard() {
	if l.f != nil {
		_ = l.f.Close()
		_ = os.Remove(l.f.Name())
	}
}

// errBadList is in the chain of errors of files that are not as they were written.
var errBadList = errors.New("the file is not as it was written")

// verifyList returns how many objects a list's file has, if all of it is sound.
func verifyList(f io.Reader, url, prefix string) (count int, err error) {
	r := bufio.NewReaderSize(f, 64<<10)
	sum := crc32.New(castagnoli)

	// line is the one before the line that is read.
	var line []byte
	for n := 0; ; n++ {
		next, err := readLine(r, nil)
		if errors.Is(err, io.EOF) && len(next) == 0 {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("%w: line %d: %w", errBadList, n+1, err)
		}
		if want := []string{listMagic, fmt.Sprintf("%q %q\n", url, prefix)}; n < len(want) && string(next) != want[n] {
			return 0, fmt.Errorf("%w: line %d: got %.80q, want %q", errBadList, n+1, next, want[n])
		}
		sum.Write(line)
		line = next
		count = n
	}
	count -= 2
	if want := fmt.Sprintf("end %d %08x\n", count, sum.Sum32()); string(line) != want {
		return 0, fmt.Errorf("%w: it ends with %.80q, want %q", errBadList, line, want)
	}
	return count, nil
}

// longestLine bounds the lines that are read: names have up to 1024 bytes, each quoted by up to 4.
const longestLine = 1 << 16

// readLine appends a line with its end to b.
func readLine(r *bufio.Reader, b []byte) ([]byte, error) {
	for {
		some, err := r.ReadSlice('\n')
		b = append(b, some...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b, err
		}
		if len(b) > longestLine {
			return b, fmt.Errorf("it has more than %d bytes", longestLine)
		}
	}
}

// A listReader reads the objects of a list's file.
type listReader struct {
	r    *bufio.Reader
	last string
	line []byte
}

// skip reads over a line.
func (l *listReader) skip() error {
	var err error
	l.line, err = readLine(l.r, l.line[:0])
	return err
}

func (l *listReader) next() (Info, error) {
	if err := l.skip(); err != nil {
		return Info{}, err
	}
	fields := strings.Split(strings.TrimSuffix(string(l.line), "\n"), "\t")
	if len(fields) != 4 {
		return Info{}, fmt.Errorf("%w: got %d fields, want 4", errBadList, len(fields))
	}
	shared, err := strconv.Atoi(fields[0])
	rest, err1 := unquote(fields[1])
	size, err2 := strconv.ParseInt(fields[2], 10, 64)
	version, err3 := unquote(fields[3])
	if err := errors.Join(err, err1, err2, err3); err != nil {
		return Info{}, fmt.Errorf("%w: %w", errBadList, err)
	}
	if shared < 0 || shared > len(l.last) || size < 0 {
		return Info{}, fmt.Errorf("%w: got %d shared bytes and size %d", errBadList, shared, size)
	}
	l.last = l.last[:shared] + rest
	return Info{Name: l.last, Size: size, Version: version}, nil
}
