package remote

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// maxPiece is the most bytes of a file in one message, and the memory that a copy takes at either end.
	maxPiece = 1 << 20
	// maxEntries is how many files and folders a checkpoint may have, maxPath how long their names may be.
	maxEntries = 1 << 16
	maxPath    = 1024
	// copyTimeout bounds the wait for the next message of a copy, and the time that a piece takes to be sent.
	copyTimeout = 30 * time.Second
)

// errBroken is in the chain of errors after which another connection goes on with a copy where it was.
var errBroken = errors.New("the connection broke")

func broken(err error) error { return fmt.Errorf("%w: %w", errBroken, err) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// An entry is a file or a folder of a checkpoint. A copy has them by name, so that a folder comes before what is in it.
type entry struct {
	Name   string `json:"name"` // with slashes
	Bytes  int64  `json:"bytes,omitempty"`
	Folder bool   `json:"folder,omitempty"`
}

// A position is where a copy goes on: Entry entries are there, and Offset bytes of the next one.
type position struct {
	Entry  int   `json:"entry"`
	Offset int64 `json:"offset"`
}

// A piece says what follows its line: so many bytes of the newest entry, with their CRC-32C.
type piece struct {
	Bytes int    `json:"bytes"`
	Sum   uint32 `json:"sum"`
}

// An end says that all entries have been sent.
type end struct {
	Entries int `json:"entries"`
}

// listTree returns what is in a folder. A link to a file in the folder counts as that file.
func listTree(root *os.Root) ([]entry, error) {
	var all []entry
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := root.Stat(filepath.FromSlash(name)) // follows links, but not out of the folder
		if err != nil {
			return err
		}
		switch {
		case len(all) == maxEntries:
			return fmt.Errorf("there are more than %d files and folders, which is the limit of what is copied", maxEntries)
		case len(name) > maxPath || !utf8.ValidString(name):
			return fmt.Errorf("the name %.80q... is not UTF-8, or has more than %d bytes", name, maxPath)
		case d.IsDir():
			all = append(all, entry{Name: name, Folder: true})
		case info.Mode().IsRegular():
			all = append(all, entry{Name: name, Bytes: info.Size()})
		default:
			return fmt.Errorf("%s is neither a file nor a folder, and cannot be copied", name)
		}
		return nil
	})
	return all, err
}

// sendTree sends the entries of a folder from a position on. It calls alive after each message.
func sendTree(c net.Conn, w *wire, root *os.Root, all []entry, from position, alive func()) error {
	if from.Entry < 0 || from.Entry > len(all) || from.Offset < 0 || from.Offset > 0 && (from.Entry == len(all) || from.Offset >= all[from.Entry].Bytes) {
		return fmt.Errorf("asked for byte %d of entry %d of %d", from.Offset, from.Entry, len(all))
	}
	send := func(m message) error {
		_ = c.SetWriteDeadline(time.Now().Add(copyTimeout))
		if err := w.send(m); err != nil {
			return broken(err)
		}
		alive()
		return nil
	}
	var buffer []byte
	for i, e := range all[from.Entry:] {
		if err := send(message{Entry: &e}); err != nil {
			return err
		}
		if e.Bytes == 0 {
			continue
		}
		if buffer == nil {
			buffer = make([]byte, maxPiece)
		}
		offset := int64(0)
		if i == 0 {
			offset = from.Offset
		}
		if err := sendFile(c, send, root, e, offset, buffer); err != nil {
			return err
		}
	}
	return send(message{End: &end{len(all)}})
}

func sendFile(c net.Conn, send func(message) error, root *os.Root, e entry, offset int64, buffer []byte) error {
	f, err := root.Open(filepath.FromSlash(e.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	for offset < e.Bytes {
		b := buffer[:min(int64(len(buffer)), e.Bytes-offset)]
		if _, err := io.ReadFull(io.NewSectionReader(f, offset, int64(len(b))), b); err != nil {
			return fmt.Errorf("%s had %d bytes when the copy began: byte %d: %w", e.Name, e.Bytes, offset, err)
		}
		if err := send(message{Piece: &piece{len(b), checksum(b)}}); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return broken(err)
		}
		offset += int64(len(b))
	}
	return nil
}

// A treeReceiver receives the files of a folder, in as many connections as it takes, one after the other.
type treeReceiver struct {
	dir   string
	limit int64  // of the bytes of all files
	alive func() // called when some have come

	mu     sync.Mutex // held by the connection that writes; guards all below
	root   *os.Root
	at     position
	bytes  int64    // of all files so far, as announced
	file   *os.File // of now, which is not whole yet
	now    entry
	whole  bool // all has come
	closed bool
}

// newTreeReceiver receives into an empty folder.
func newTreeReceiver(dir string, limit int64, alive func()) *treeReceiver {
	return &treeReceiver{dir: dir, limit: limit, alive: alive}
}

// close ends it. Its connection, if there is one, must have been closed.
func (in *treeReceiver) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.file != nil {
		in.file.Close()
	}
	if in.root != nil {
		in.root.Close()
	}
}

// complete says whether all has come.
func (in *treeReceiver) complete() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.whole
}

// position is how much has come.
func (in *treeReceiver) position() position {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at
}

// receive says where it is and takes what comes, until all is there.
func (in *treeReceiver) receive(c net.Conn, w *wire) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errors.New("the checkpoint is no longer waited for")
	}
	if in.root == nil {
		var err error
		if in.root, err = os.OpenRoot(in.dir); err != nil {
			return err
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(copyTimeout))
	at := in.at
	if err := w.send(message{From: &at}); err != nil {
		return broken(err)
	}
	var buffer []byte
	for {
		_ = c.SetReadDeadline(time.Now().Add(copyTimeout))
		m, err := w.receive()
		switch {
		case err != nil:
			return broken(err)
		case m.Error != nil:
			return &refusal{*m.Error}
		case m.Entry != nil:
			err = in.begin(*m.Entry)
		case m.Piece != nil:
			n := m.Piece.Bytes
			if in.file == nil || n <= 0 || n > maxPiece || int64(n) > in.now.Bytes-in.at.Offset {
				return fmt.Errorf("got a piece of %d bytes at byte %d of %q, which has %d: want 1 to %d, and no more than are left", n, in.at.Offset, in.now.Name, in.now.Bytes, maxPiece)
			}
			if buffer == nil {
				buffer = make([]byte, maxPiece)
			}
			if _, err := io.ReadFull(w.in, buffer[:n]); err != nil {
				return broken(err)
			}
			if sum := checksum(buffer[:n]); sum != m.Piece.Sum {
				return broken(fmt.Errorf("%s: %d bytes from %d on have the checksum %08x, want %08x", in.now.Name, n, in.at.Offset, sum, m.Piece.Sum))
			}
			err = in.write(buffer[:n])
		case m.End != nil:
			if in.file != nil || m.End.Entries != in.at.Entry {
				return fmt.Errorf("got the end after %d entries, want it after %d", in.at.Entry, m.End.Entries)
			}
			in.whole = true
			return nil
		default:
			return errors.New("got another message, want an entry, a piece or the end of a copy")
		}
		if err != nil {
			return err
		}
		in.alive()
	}
}

// begin makes a folder, or a file for the pieces that follow. in.mu is held.
func (in *treeReceiver) begin(e entry) error {
	if in.file != nil { // as a connection begins that goes on with it
		if e != in.now {
			return fmt.Errorf("got %q of %d bytes, want %d more bytes of %q first", e.Name, e.Bytes, in.now.Bytes-in.at.Offset, in.now.Name)
		}
		return nil
	}
	name := filepath.FromSlash(e.Name)
	switch {
	case len(e.Name) > maxPath || e.Name == "." || !fs.ValidPath(e.Name) || !filepath.IsLocal(name):
		return fmt.Errorf("got the name %.80q, want a path in the folder of at most %d bytes", e.Name, maxPath)
	case e.Bytes < 0 || e.Folder && e.Bytes != 0:
		return fmt.Errorf("%q has %d bytes", e.Name, e.Bytes)
	case in.at.Entry == maxEntries:
		return fmt.Errorf("there are more than %d files and folders", maxEntries)
	case e.Bytes > in.limit-in.bytes:
		return fmt.Errorf("%w: %d bytes so far and %d of %q are more than %d", errTooLarge, in.bytes, e.Bytes, e.Name, in.limit)
	}
	if e.Folder {
		if err := in.root.Mkdir(name, 0o777); err != nil {
			return err
		}
		in.at.Entry++
		return nil
	}
	f, err := in.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	in.bytes += e.Bytes
	in.file, in.now = f, e
	return in.finish()
}

// errTooLarge is in the chain of the error of a checkpoint that is larger than the limit.
var errTooLarge = errors.New("the checkpoint is too large to be copied")

// write appends to the file. in.mu is held.
func (in *treeReceiver) write(b []byte) error {
	if _, err := in.file.Write(b); err != nil {
		return err
	}
	in.at.Offset += int64(len(b))
	return in.finish()
}

// finish closes the file if it is whole. in.mu is held.
func (in *treeReceiver) finish() error {
	if in.at.Offset < in.now.Bytes {
		return nil
	}
	err := in.file.Close()
	in.file, in.at = nil, position{in.at.Entry + 1, 0}
	return err
}

// A refusal is an error that the other end told.
type refusal struct{ failure }

func (r *refusal) Error() string { return r.Text }

// Is says that what was asked for is not there (fs.ErrNotExist).
func (r *refusal) Is(target error) bool { return r.Gone && target == fs.ErrNotExist }
