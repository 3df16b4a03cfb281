package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/member/framing"
)

// unshared is the task of processes that do not have the search's files.
func unshared(t *testing.T, restore string) Task {
	t.Helper()
	x := task
	x.Marker = &Marker{Path: filepath.Join(t.TempDir(), "marker"), Text: "x"}
	x.Folder, x.Restore = "/of/the/search", nil
	if restore != "" {
		x.Restore = &Restore{Dir: restore, Step: 3, Donor: 4}
	}
	t.Setenv("TMPDIR", t.TempDir())
	return x
}

// tree makes files, some of several pieces, and returns what wantTree compares.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	bytes := make([]byte, 2*maxPiece+maxPiece/2)
	r := rand.NewChaCha8([32]byte{})
	if _, err := r.Read(bytes); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"a": "", "b/deep/c": string(bytes), "b/d": "d", "e": string(bytes[:maxPiece]), "empty/": "", "z": "last"}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o777))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return files
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantTree(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			if entries, err := os.ReadDir(path); len(entries) == 0 && err == nil {
				got[name+"/"] = ""
			}
			return nil
		}
		b, err := os.ReadFile(path)
		got[name] = string(b)
		return err
	}))
	for name, text := range want {
		if have, ok := got[name]; !ok || have != text {
			t.Errorf("%s: there is %t, with %d bytes, want the %d that were written", name, ok, len(have), len(text))
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d files and folders, want %d", len(got), len(want))
	}
}

// wantNoScratch checks that no temporary folder is left.
func wantNoScratch(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "paragon-checkpoint-*")); len(left) > 0 || err != nil {
		t.Errorf("%q are left, %v", left, err)
	}
}

func TestCheckpointsAreCopiedWhereFilesAreNotShared(t *testing.T) {
	from := t.TempDir()
	files := tree(t, from)
	s := newServer(t, "127.0.0.1")
	b := newBackend(t, 9)
	x := s.Open(unshared(t, from), nil, b)
	defer x.Close()
	c, second := dial(t, x, 0), dial(t, x, 1)
	if c.Task().Folder != "" {
		t.Errorf("the trial's folder is %q, want none: it is not on this machine", c.Task().Folder)
	}
	for _, c := range []*Client{c, second} {
		dir, remove, err := c.Restore(t.Context())
		must(t, err)
		if dir == from {
			t.Errorf("the folder to go on from is the search's")
		}
		wantTree(t, dir, files)
		must(t, remove())
	}
	if n := b.parts.Load(); n < 2*int64(len(files)) {
		t.Errorf("%d signs of life while it was copied to two processes, want at least %d", n, 2*len(files))
	}
	b.parts.Store(0)
	var wrote string
	for range 2 { // the second time it is kept already
		must(t, c.Checkpoint(t.Context(), 2, func(dir string) error { wrote = dir; tree(t, dir); return nil }))
	}
	wantTree(t, filepath.Join(b.dir, "2"), files)
	if wrote == b.kept[2] {
		t.Error("it was written into the search's folder")
	}
	if b.parts.Load() < int64(len(files)) {
		t.Errorf("%d signs of life while it was copied, want at least %d", b.parts.Load(), len(files))
	}
	wantNoScratch(t)
}

func TestFilesThatAreSharedAreNotCopied(t *testing.T) {
	from := t.TempDir()
	shared := unshared(t, from)
	must(t, os.WriteFile(shared.Marker.Path, []byte("x"), 0o666))
	s := newServer(t, "127.0.0.1")
	b := newBackend(t, 9)
	x := s.Open(shared, nil, b)
	defer x.Close()
	c := dial(t, x, 0)
	dir, _, err := c.Restore(t.Context())
	if err != nil || dir != from || c.Task().Folder != shared.Folder {
		t.Errorf("the folder to go on from is %s (%v), that of the trial %s, want %s and %s", dir, err, c.Task().Folder, from, shared.Folder)
	}
	must(t, c.Checkpoint(t.Context(), 2, func(dir string) error {
		if want := filepath.Join(b.dir, "2"); dir != want {
			t.Errorf("a checkpoint is written into %s, want %s", dir, want)
		}
		return nil
	}))
	other := shared
	other.Marker = &Marker{Path: shared.Marker.Path, Text: "another"}
	if other.Marker.there() {
		t.Error("a marker with another text counts")
	}
}

// A cutter passes connections on to an address, and cuts each but the first after so many bytes in
// either direction.
type cutter struct {
	net.Listener
	to    string
	after int64
	done  sync.WaitGroup
	mu    sync.Mutex
	conns int
}

func newCutter(t *testing.T, to string, after int64) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cutter{Listener: l, to: to, after: after}
	c.done.Go(c.accept)
	t.Cleanup(func() {
		l.Close()
		c.done.Wait()
	})
	return c
}

func (c *cutter) accept() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			in.Close()
			continue
		}
		c.mu.Lock()
		c.conns++
		first := c.conns == 1
		c.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			c.done.Go(func() {
				if first {
					_, _ = io.Copy(way[1], way[0])
				} else {
					_, _ = io.CopyN(way[1], way[0], c.after)
				}
				in.Close()
				out.Close()
			})
		}
	}
}

// through is the environment of a process that reaches the search through the cutter.
func (c *cutter) through(x *Session) func(string) (string, bool) {
	of := environment(x, "PARAGON_RANK=0")
	return func(name string) (string, bool) {
		if name == AddressVariable {
			return "tcp:" + c.Addr().String(), true
		}
		return of(name)
	}
}

func TestACopyGoesOnAfterItsConnectionBroke(t *testing.T) {
	from := t.TempDir()
	files := tree(t, from)
	s := newServer(t, "127.0.0.1")
	b := newBackend(t, 9)
	x := s.Open(unshared(t, from), nil, b)
	defer x.Close()
	cut := newCutter(t, strings.TrimPrefix(s.address, "tcp:"), maxPiece+maxPiece/4)
	c, _, err := Dial(t.Context(), cut.through(x))
	must(t, err)
	dir, remove, err := c.Restore(t.Context())
	must(t, err)
	wantTree(t, dir, files)
	must(t, remove())
	must(t, c.Checkpoint(t.Context(), 2, func(dir string) error { tree(t, dir); return nil }))
	wantTree(t, filepath.Join(b.dir, "2"), files)
	cut.mu.Lock()
	defer cut.mu.Unlock()
	// 3.5 pieces in connections of 1.25, each of which brings one piece, and in the end the
	// half one with the rest.
	if cut.conns < 1+3+3 || cut.conns > 1+5+5 {
		t.Errorf("it took %d connections, want 7 to 11: one goes on where another was", cut.conns)
	}
	wantNoScratch(t)
}

func TestWhatCannotBeCopiedIsAnError(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	b := newBackend(t, 9)
	gone := filepath.Join(t.TempDir(), "gone")
	x := s.Open(unshared(t, gone), nil, b)
	defer x.Close()
	c := dial(t, x, 0)
	if _, _, err := c.Restore(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that is gone: %v, want %v", err, fs.ErrNotExist)
	}
	big := filepath.Join(t.TempDir(), "big")
	must(t, os.WriteFile(big, nil, 0o666))
	for i, tc := range []struct {
		name  string
		write func(dir string) error
		want  string
	}{
		{"it is too large", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o666), os.WriteFile(filepath.Join(dir, "b"), make([]byte, testLimit), 0o666))
		}, `the checkpoint is too large to be copied: 1 bytes so far and 8388608 of "b" are more than 8388608`},
		{"a link out of the folder", func(dir string) error { return os.Symlink(big, filepath.Join(dir, "link")) }, "path escapes from parent"},
		{"a link to a folder", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "f"), 0o777), os.Symlink("f", filepath.Join(dir, "g")))
		}, "g is neither a file nor a folder"},
		{"a name that is no text", func(dir string) error { return os.WriteFile(filepath.Join(dir, "\xff"), nil, 0o666) }, "is not UTF-8"},
		{"write fails", func(dir string) error { return errors.New("disk full") }, "disk full"},
	} {
		if err := c.Checkpoint(t.Context(), i, tc.write); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
		if b.kept[i] != "" {
			t.Errorf("%s: it was kept", tc.name)
		}
	}
	must(t, c.Checkpoint(t.Context(), 9, func(dir string) error { // a link in the folder is a file
		return errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o666), os.Symlink("a", filepath.Join(dir, "b")))
	}))
	wantTree(t, filepath.Join(b.dir, "9"), map[string]string{"a": "a", "b": "a"})
	wantNoScratch(t)
}

// A search that does not come back ends a copy.
func TestACopyEndsWithItsContext(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	x := s.Open(unshared(t, t.TempDir()), nil, newBackend(t, 9))
	defer x.Close()
	c := dial(t, x, 0)
	c.address = "tcp:127.0.0.1:1" // nobody is there
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := c.Restore(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	wantNoScratch(t)
}

// archive has entries, and ends if that is said. A text may be shorter than its header says, where
// it is the last.
func archive(t testing.TB, ends bool, headers []tar.Header, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		must(t, w.WriteHeader(&h))
	}
	_, err := io.WriteString(w, text)
	must(t, err)
	if ends {
		must(t, w.Close())
	}
	return b.Bytes()
}

// file is a header.
func file(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
}

// pieces is what a sender of an archive sends.
func pieces(t testing.TB, archive []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for part := range slices.Chunk(archive, maxPiece) {
		must(t, (&wire{out: &b}).send(message{Piece: &piece{checksum(part)}}))
		must(t, framing.Write(&b, part, maxPiece))
	}
	return b.Bytes()
}

// sent is a message as it is sent.
func sent(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, framing.Write(&b, []byte(text), maxMessage))
	return b.Bytes()
}

// peer sends bytes to a treeReceiver and closes; it returns the treeReceiver's error.
func peer(t testing.TB, in *treeReceiver, stream []byte) error {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, _ = there.Write(stream)
		there.Close()
	}()
	return in.receive(here, newWire(here))
}

func TestATreeReceiverStaysInItsFolder(t *testing.T) {
	of := func(headers ...tar.Header) []byte { return pieces(t, archive(t, false, headers, "")) }
	link := func(kind byte) []byte { return of(tar.Header{Typeflag: kind, Name: "l", Linkname: "/etc/passwd"}) }
	for _, tc := range []struct {
		name, want string
		stream     []byte
	}{
		{"the folder above", `got the name "../x"`, of(file("../x", 0))},
		{"the root", `got the name "/x"`, of(file("/x", 0))},
		{"a way out", `got the name`, of(file("a/../../x", 0))},
		{"the folder itself", `got the name "."`, of(file(".", 0))},
		{"no name", `got the name ""`, of(file("", 0))},
		{"a long name", `of at most 1024 bytes`, of(file(strings.Repeat("x", maxPath+1), 0))},
		{"through a link", "path escapes from parent", of(file("out/x", 1))},
		{"in place of a link", "file exists", of(file("out", 1))},
		{"a file twice", "file exists", of(file("a", 0), file("a", 0))},
		{"a large file", "too large to be copied", of(file("a", 9e18))},
		{"a symbolic link", `got "l" of type '2'`, link(tar.TypeSymlink)},
		{"a hard link", `got "l" of type '1'`, link(tar.TypeLink)},
		{"a device", `got "l" of type '3'`, link(tar.TypeChar)},
		{"a pipe", `got "l" of type '6'`, link(tar.TypeFifo)},
		{"no archive", "invalid tar header", pieces(t, bytes.Repeat([]byte("x"), 512))},
		{"an empty piece", "got an empty piece", append(sent(t, `{"piece":{"sum":0}}`), 0, 0, 0, 0)},
		{"a large piece", "got a message of 1048577 bytes, want at most 1048576", append(sent(t, `{"piece":{"sum":0}}`), framing.AppendHead(nil, maxPiece+1)...)},
		{"another message", "got another message", sent(t, `{"bye":{}}`)},
		{"an error", "no more", sent(t, `{"error":{"text":"no more"}}`)},
	} {
		dir, outside := t.TempDir(), t.TempDir()
		must(t, os.Symlink(outside, filepath.Join(dir, "out")))
		in := newTreeReceiver(dir, testLimit, func() {})
		if err := peer(t, in, tc.stream); err == nil || errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
		in.close()
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("%s: it wrote %s outside of its folder", tc.name, left[0].Name())
		}
	}
}

// withRecords is an archive of a file of no bytes, before whose header an extended one (PAX) has
// the records.
func withRecords(t testing.TB, name string, records ...string) []byte {
	t.Helper()
	var text string
	for _, r := range records { // each begins with its length, which counts itself
		n := len(r) + 2
		for n != len(fmt.Sprintf("%d %s\n", n, r)) {
			n++
		}
		text += fmt.Sprintf("%d %s\n", n, r)
	}
	b := archive(t, false, []tar.Header{file("x", int64(len(text)))}, text)
	b[156] = tar.TypeXHeader // in place of that of a file; the sum of the header's bytes, at 148, counts it
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sumOfHeader(b[:512])))
	b = append(b, make([]byte, -len(b)&511)...)
	return append(b, archive(t, true, []tar.Header{file(name, 0)}, "")...)
}

// sumOfHeader is the sum of a header's bytes, in which the sum itself counts as blanks.
func sumOfHeader(b []byte) (sum int) {
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	return sum
}

// A file comes byte by byte: one that an archive describes as a hole of any size would fill the
// disk by a few bytes, during which nobody could end the copy.
func TestAFileWithHolesIsRefused(t *testing.T) {
	dir := t.TempDir()
	in := newTreeReceiver(dir, testLimit, func() {})
	defer in.close()
	hole := fmt.Sprintf("GNU.sparse.size=%d", testLimit)
	err := peer(t, in, pieces(t, withRecords(t, "a", "GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.name=a", "GNU.sparse.map=0,0", "GNU.sparse.numblocks=1", hole)))
	if err == nil || errors.Is(err, errBroken) || !strings.Contains(err.Error(), `got "a" with the record "GNU.sparse.`) {
		t.Errorf("got %v, want a refusal", err)
	}
	wantTree(t, dir, map[string]string{"./": ""})
	if err := peer(t, in, pieces(t, withRecords(t, "b", "path=c"))); err != nil {
		t.Errorf("a file whose name is in a record: %v", err)
	}
	wantTree(t, dir, map[string]string{"c": ""})
}

// There are limits for the number of entries, and for what an archive has besides its files.
func TestATreeReceiverTakesNoMoreThanItsLimits(t *testing.T) {
	var many []tar.Header
	for i := range 11 {
		many = append(many, tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%x/", i)})
	}
	in := newTreeReceiver(t.TempDir(), testLimit, func() {})
	in.at.Entry = maxEntries - 10 // as if so many were there
	if err := peer(t, in, pieces(t, archive(t, true, many, ""))); err == nil || !strings.Contains(err.Error(), "more than 65536 files and folders") {
		t.Errorf("too many: got %v", err)
	}
	in.close()
	r := &pieceReader{left: 3}
	here, there := net.Pipe()
	defer here.Close()
	r.c, r.w = here, newWire(here)
	go func() { _, _ = there.Write(pieces(t, []byte("1234"))) }()
	if _, err := io.ReadAll(r); !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "its archive has 1 bytes more") {
		t.Errorf("4 bytes of 3: got %v, want %v", err, errTooLarge)
	}
}

// A wrong sum is not written, and the next connection begins with that piece.
func TestAPieceWithAWrongSumIsSentAgain(t *testing.T) {
	dir := t.TempDir()
	in := newTreeReceiver(dir, testLimit, func() {})
	defer in.close()
	head := pieces(t, archive(t, false, []tar.Header{file("a", 5)}, ""))
	wrong := append(sent(t, `{"piece":{"sum":1}}`), "\x02\x00\x00\x00ab"...)
	if err := peer(t, in, slices.Concat(head, wrong)); !errors.Is(err, errBroken) || in.position() != (position{}) {
		t.Errorf("got %v, want %v, and be at %+v", err, errBroken, in.position())
	}
	if err := peer(t, in, slices.Concat(head, pieces(t, []byte("ab")))); !errors.Is(err, errBroken) || in.position() != (position{0, 2}) {
		t.Errorf("got %v, want %v, and be at %+v, want 2 bytes", err, errBroken, in.position())
	}
	for _, tc := range []struct {
		name, want string
		archive    []byte
	}{
		{"another file", `got "b" of 3 bytes, want 3 more bytes of "a" first`, archive(t, false, []tar.Header{file("b", 3)}, "cde")},
		{"the whole file", `got "a" of 5 bytes, want 3 more bytes of "a" first`, archive(t, false, []tar.Header{file("a", 5)}, "abcde")},
		{"nothing", `got the end of the archive, want 3 more bytes of "a" first`, archive(t, true, nil, "")},
	} {
		if err := peer(t, in, pieces(t, tc.archive)); err == nil || !strings.Contains(err.Error(), tc.want) || in.position() != (position{0, 2}) {
			t.Errorf("%s in place of the rest: got %v at %+v, want an error with %q", tc.name, err, in.position(), tc.want)
		}
	}
	if err := peer(t, in, pieces(t, archive(t, true, []tar.Header{file("a", 3)}, "cde"))); err != nil || !in.complete() {
		t.Errorf("got %v, want all", err)
	}
	wantTree(t, dir, map[string]string{"a": "abcde"})
}

// A peer that stops in the middle, or does not read, is given up after a time.
func TestACopyDoesNotWaitForASilentPeer(t *testing.T) {
	stream := pieces(t, archive(t, false, []tar.Header{file("a", 5)}, "ab"))
	for sent := 0; sent < len(stream); sent += 19 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			go func() { _, _ = there.Write(stream[:sent]) }()
			in, start := newTreeReceiver(dir, testLimit, func() {}), time.Now()
			defer in.close()
			if err := in.receive(here, newWire(here)); !errors.Is(err, errBroken) || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > 2*copyTimeout {
				t.Errorf("after %d bytes: got %v after %v, want a timeout", sent, err, time.Since(start))
			}
			here.Close()
		})
	}
	from := t.TempDir()
	tree(t, from)
	root, err := os.OpenRoot(from)
	must(t, err)
	defer root.Close()
	all, err := listTree(root)
	must(t, err)
	for _, read := range []int64{0, 100, maxPiece} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			go func() { _, _ = io.CopyN(io.Discard, there, read) }()
			err := sendTree(here, newWire(here), root, all, position{}, func() {})
			if !errors.Is(err, errBroken) || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d bytes: got %v, want a timeout", read, err)
			}
			here.Close()
		})
	}
}

// A disk that is full ends the copy: another connection would not help.
func TestAFullDiskEndsACopy(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	in := newTreeReceiver(t.TempDir(), testLimit, func() {})
	defer in.close()
	head := pieces(t, archive(t, false, []tar.Header{file("a", 5)}, ""))
	if err := peer(t, in, head); !errors.Is(err, errBroken) {
		t.Fatalf("got %v, want %v", err, errBroken)
	}
	in.file.Close()
	in.file = full
	err = peer(t, in, slices.Concat(head, pieces(t, []byte("ab"))))
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, errBroken) || in.complete() {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
}

// A file that gets shorter, or goes away, while it is copied is an error.
func TestAFileThatChangesWhileItIsCopiedIsAnError(t *testing.T) {
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "a"), []byte("abc"), 0o666))
	root, err := os.OpenRoot(from)
	must(t, err)
	defer root.Close()
	for _, tc := range []struct {
		was  entry
		want string
	}{{entry{name: "a", bytes: 5}, "a had 5 bytes when the copy began"}, {entry{name: "b", bytes: 5}, "no such file"}} {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		if err := sendTree(here, newWire(here), root, []entry{tc.was}, position{}, func() {}); err == nil || errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.was.name, err, tc.want)
		}
		here.Close()
	}
}

// A process may not save a checkpoint that the search has not asked for, in another's name, or in
// part.
func TestOnlyTheCheckpointThatIsSavedIsTaken(t *testing.T) {
	s := newServer(t, "127.0.0.1")
	b := newBackend(t, 9)
	x := s.Open(unshared(t, ""), nil, b)
	defer x.Close()
	ask := func(h hello) error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.address, "tcp:"))
		must(t, err)
		defer conn.Close()
		w := newWire(conn)
		h.Version, h.Token = version, x.token
		must(t, w.send(message{Hello: &h}))
		must(t, w.send(message{From: &position{}}))
		m, err := w.receive()
		if err == nil && m.Error != nil {
			err = errors.New(m.Error.Text)
		}
		return err
	}
	c := dial(t, x, 0)
	for _, tc := range []struct {
		hello hello
		want  string
	}{
		{hello{Copy: copySave}, "rank 0 saves no checkpoint"},
		{hello{Rank: 1, Copy: copyRestore}, "rank 1 of trial 7 has not connected"},
		{hello{Copy: copyRestore}, "trial 7 goes on from no checkpoint"},
		{hello{Copy: "all"}, `got copy "all"`},
	} {
		if err := ask(tc.hello); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want an error with %q", tc.hello, err, tc.want)
		}
	}
	if m, err := c.ask(message{Checkpoint: &checkpoint{1}}); err != nil || m.Folder == nil {
		t.Fatalf("got %+v, %v, want a folder", m, err)
	}
	if _, err := c.ask(message{Written: &written{Copied: true}}); err == nil || !strings.Contains(err.Error(), "not all files of the checkpoint came") {
		t.Errorf("a checkpoint of which nothing came: %v", err)
	}
}

func FuzzTreeReceiver(f *testing.F) {
	f.Add(archive(f, true, []tar.Header{file("a", 5)}, "abcde"))
	f.Add(archive(f, false, []tar.Header{file("a", 5)}, "ab"))
	f.Add(archive(f, true, []tar.Header{{Typeflag: tar.TypeDir, Name: "b/"}, file("b/c", 0)}, ""))
	f.Add(archive(f, true, []tar.Header{file("../a", 1)}, "a"))
	f.Add(withRecords(f, "a", "path=b", "size=3"))
	f.Add(archive(f, true, []tar.Header{file(strings.Repeat("long/", 60)+"x", 0)}, ""))
	f.Fuzz(func(t *testing.T, stream []byte) {
		root := t.TempDir()
		dir := filepath.Join(root, "dir")
		must(t, os.Mkdir(dir, 0o777))
		in := newTreeReceiver(dir, 100, func() {})
		err := peer(t, in, pieces(t, stream))
		if (err == nil) != in.complete() {
			t.Errorf("%q: %v, whole is %t", stream, err, in.complete())
		}
		in.close()
		var size int64
		must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if info, infoErr := d.Info(); infoErr == nil && info.Mode().IsRegular() {
				size += info.Size()
			}
			return err
		}))
		if beside, _ := os.ReadDir(root); len(beside) != 1 || size > 100 {
			t.Errorf("%q: %d names beside the folder, %d bytes in it", stream, len(beside)-1, size)
		}
	})
}

// A checkpoint of 64 MiB, copied by a process without the search's files, and written by one that
// has them:
//
//	go test -run '^$' -bench Checkpoint ./tune/internal/remote
func BenchmarkCheckpoint(b *testing.B) {
	const size = 64 << 20
	text := make([]byte, size)
	write := func(dir string) error { return os.WriteFile(filepath.Join(dir, "w"), text, 0o666) }
	for _, copied := range []bool{true, false} {
		b.Run(fmt.Sprintf("copied=%t", copied), func(b *testing.B) {
			b.Setenv("TMPDIR", b.TempDir())
			s, err := Listen("127.0.0.1", size)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			t := task
			if copied {
				t.Marker = &Marker{Path: filepath.Join(b.TempDir(), "marker"), Text: "x"}
			}
			x := s.Open(t, nil, &backend{kept: make(map[int]string), dir: b.TempDir()})
			defer x.Close()
			c, _, err := Dial(b.Context(), environment(x))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			step := 0
			for b.Loop() {
				step++
				if err := c.Checkpoint(b.Context(), step, write); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A copy whose connection breaks after a long time goes on: only time without progress counts.
func TestACopyIsPatientAfterALongConnection(t *testing.T) {
	start := time.Now()
	r := retry{}
	for _, step := range []struct {
		after time.Duration
		at    position
		ok    bool
	}{
		{10 * copyPatience, position{}, true}, // it copied all the time; where it is the next connection hears
		{10*copyPatience + copyPatience/2, position{3, 5}, true},
		{11 * copyPatience, position{3, 5}, true},
		{12 * copyPatience, position{3, 5}, false},
	} {
		if wait, ok := r.broke(step.at, start.Add(step.after)); ok != step.ok || wait < firstWait || wait > longestWait {
			t.Errorf("broken after %v at %v: got wait %v, go on %v, want %v", step.after, step.at, wait, ok, step.ok)
		}
	}
}

// The limit is of all files together.
func TestFilesTogetherKeepTheLimit(t *testing.T) {
	dir := t.TempDir()
	in := newTreeReceiver(dir, 10, func() {})
	defer in.close()
	two := map[string]string{"a": "1234", "b": "5678"}
	for _, name := range []string{"a", "b"} {
		if err := peer(t, in, pieces(t, archive(t, false, []tar.Header{file(name, 4)}, two[name]))); !errors.Is(err, errBroken) {
			t.Errorf("%s: got %v, want the end of the connection", name, err)
		}
	}
	if err := peer(t, in, pieces(t, archive(t, true, []tar.Header{file("c", 4)}, "9012"))); !errors.Is(err, errTooLarge) {
		t.Errorf("a third file of 4 bytes of at most 10: got %v, want %v", err, errTooLarge)
	}
	wantTree(t, dir, two)
}
