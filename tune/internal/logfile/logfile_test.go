package logfile

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// appendLine writes the line of a number.
func appendLine(b []byte, n uint64) []byte {
	from := len(b)
	return AppendSum(fmt.Appendf(b, `{"seq":%d`, n), from)
}

// decodeLine reads a line that appendLine wrote.
func decodeLine(line []byte) (n, seq uint64, err error) {
	body, err := CutSum(line)
	if err == nil {
		_, err = fmt.Sscanf(string(body), `{"seq":%d`, &n)
	}
	return n, n, err
}

// readAll reads the log that has these bytes.
func readAll(t *testing.T, log []byte) (numbers []uint64, end End, err error) {
	t.Helper()
	disk := &vfs.Mem{}
	if err := vfs.WriteFile(disk, "log", func(w io.Writer) error { _, err := w.Write(log); return err }); err != nil {
		t.Fatal(err)
	}
	end, err = Read(disk, "log", decodeLine, func(n *uint64) error { numbers = append(numbers, *n); return nil })
	return numbers, end, err
}

// A line that somebody waits for is on the disk with all lines before it, by one sync.
func TestOneSyncServesAllLinesBefore(t *testing.T) {
	disk := &vfs.Mem{}
	j, err := Create(disk, "log")
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		j.Append(n, func(b []byte) []byte { return appendLine(b, n) })
	}
	if got := j.Done(); got != 0 {
		t.Errorf("%d lines are on the disk before anybody waits", got)
	}
	if err := j.Wait(1); err != nil {
		t.Fatal(err)
	}
	if got := j.Done(); got != 3 {
		t.Errorf("got %d lines on the disk, want 3", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	if _, err := Read(disk.Crash(true, false), "log", decodeLine, func(n *uint64) error { got = append(got, *n); return nil }); err != nil || !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Errorf("after a crash: got %v, %v", got, err)
	}
}

// A log may be cut anywhere in its last batch: what is read are its whole lines.
func TestATornEndIsSkipped(t *testing.T) {
	whole := appendLine(appendLine(nil, 0), 1)
	for cut := range appendLine(nil, 2) {
		log := appendLine(bytes.Clone(whole), 2)[:len(whole)+cut]
		got, end, err := readAll(t, log)
		if err != nil || len(got) != 2 || end.Bytes != int64(len(whole)) || end.Torn != int64(cut) {
			t.Errorf("cut after %d bytes: got lines %v, end %+v, %v", cut, got, end, err)
		}
	}
}

// What a crash cannot leave is an error that names the line.
func TestDamageIsAnErrorThatNamesTheLine(t *testing.T) {
	lines := [][]byte{appendLine(nil, 0), appendLine(nil, 1), appendLine(nil, 2)}
	flipped := bytes.Replace(lines[1], []byte("1"), []byte("3"), 1)
	for what, tc := range map[string]struct {
		log  [][]byte
		want string
	}{
		"a changed line":  {[][]byte{lines[0], flipped, lines[2]}, "line 2 is damaged"},
		"a missing line":  {[][]byte{lines[0], lines[2]}, "line 2: got event 2, want event 1"},
		"a repeated line": {[][]byte{lines[0], lines[1], lines[1]}, "line 3: got event 1, want event 2"},
		"another file":    {[][]byte{[]byte("hello\n")}, "line 1 and all after it"},
	} {
		if _, _, err := readAll(t, bytes.Join(tc.log, nil)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", what, err, tc.want)
		}
	}
}
