package remote

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/paragon-train/paragon/internal/member/framing"
)

const (
	// maxPiece is the most bytes of an archive between two checksums. A copy takes about as
	// much memory at either end.
	maxPiece = 1 << 20
	// maxEntries is how many files and folders a checkpoint may have, maxPath how long their
	// names may be.
	maxEntries = 1 << 16
	maxPath    = 1024
	// maxHeaders bounds what an archive has for each entry besides the bytes of its file:
	// headers and padding.
	maxHeaders = 8 << 10
	// copyTimeout bounds the wait for the next message of a copy, and the time that a piece
	// takes to be sent.
	copyTimeout = 30 * time.Second
)

// errBroken is in the chain of errors of the connection alone. After them another connection goes
// on where the copy was.
var errBroken = errors.New("the connection broke")

// broken marks an error of the connection, after which a copy goes on over another one.
func broken(err error) error { return fmt.Errorf("%w: %w", errBroken, err) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC-32C of a piece.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// An entry is a file or a folder of a checkpoint. An archive has them by name, so that a folder
// comes before what is in it.
type entry struct {
	// name is the path in the tree, with slashes on every system.
	name   string
	bytes  int64
	folder bool
}

// listTree returns what is in a folder. A link to a file in the folder counts as that file.
func listTree(root *os.Root) ([]entry, error) {
	var all []entry
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		// A root follows links only as long as they stay within the folder.
		info, err := root.Stat(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		switch {
		case len(all) == maxEntries:
			return fmt.Errorf("there are more than %d files and folders, which is the limit of what is copied", maxEntries)
		case len(name) > maxPath || !utf8.ValidString(name):
			return fmt.Errorf("the name %.80q... is not UTF-8, or has more than %d bytes", name, maxPath)
		case d.IsDir():
			all = append(all, entry{name: name, folder: true})
		case info.Mode().IsRegular():
			all = append(all, entry{name: name, bytes: info.Size()})
		default:
			return fmt.Errorf("%s is neither a file nor a folder, and cannot be copied", name)
		}
		return nil
	})
	return all, err
}

// sendTree sends an archive of the entries of a folder from a position on. It calls alive after
// each entry and piece.
func sendTree(c net.Conn, w *wire, root *os.Root, all []entry, from position, alive func()) error {
	if from.Entry < 0 || from.Entry > len(all) || from.Offset < 0 || from.Offset > 0 && (from.Entry == len(all) || from.Offset >= all[from.Entry].bytes) {
		return fmt.Errorf("asked for byte %d of entry %d of %d", from.Offset, from.Entry, len(all))
	}
	out := bufio.NewWriterSize(&pieceWriter{c, w, alive}, maxPiece)
	archive := tar.NewWriter(out)
	for _, e := range all[from.Entry:] {
		if err := add(archive, root, e, from.Offset); err != nil {
			return err
		}
		alive()
		from.Offset = 0
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// add adds an entry to an archive, of a file the bytes from the offset on.
func add(archive *tar.Writer, root *os.Root, e entry, offset int64) error {
	if e.folder {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.name + "/", Mode: 0o777})
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o666, Size: e.bytes - offset}); err != nil || e.bytes == 0 {
		return err
	}
	f, err := root.Open(filepath.FromSlash(e.name))
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(archive, io.NewSectionReader(f, offset, e.bytes-offset))
	if err == nil && n < e.bytes-offset {
		err = fmt.Errorf("%s had %d bytes when the copy began: byte %d: %w", e.name, e.bytes, offset+n, io.ErrUnexpectedEOF)
	}
	return err
}

// A pieceWriter sends what is written to it, in pieces.
type pieceWriter struct {
	c     net.Conn
	w     *wire
	alive func()
}

func (p *pieceWriter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		next := b[n:min(len(b), n+maxPiece)]
		_ = p.c.SetWriteDeadline(time.Now().Add(copyTimeout))
		err := p.w.send(message{Piece: &piece{checksum(next)}})
		if err == nil {
			_, err = p.c.Write(framing.AppendHead(nil, len(next)))
		}
		if err == nil {
			_, err = p.c.Write(next)
		}
		if err != nil {
			return n, broken(err)
		}
		p.alive()
		n += len(next)
	}
	return n, nil
}

// A pieceReader reads what a pieceWriter sends.
type pieceReader struct {
	c net.Conn
	w *wire
	// left is how many bytes may still come.
	left int64
	// buffer holds one piece of a file at a time.
	buffer []byte
	// remaining is what is left of the piece that came last.
	remaining []byte
}

func (p *pieceReader) Read(b []byte) (int, error) {
	for len(p.remaining) == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.remaining)
	p.remaining = p.remaining[n:]
	return n, nil
}

// next receives a piece.
func (p *pieceReader) next() error {
	_ = p.c.SetReadDeadline(time.Now().Add(copyTimeout))
	m, err := p.w.receive()
	switch {
	case err != nil:
		return broken(err)
	case m.Error != nil:
		return &refusal{*m.Error}
	case m.Piece == nil:
		return errors.New("got another message, want a piece of an archive")
	}
	p.buffer, err = framing.Read(p.w.in, p.buffer, maxPiece)
	if _, long := tooLong(err); long {
		return err
	}
	if err != nil {
		return broken(err)
	}
	if len(p.buffer) == 0 {
		return errors.New("got an empty piece of an archive")
	}
	if sum := checksum(p.buffer); sum != m.Piece.Sum {
		return broken(fmt.Errorf("a piece of %d bytes has the checksum %08x, want %08x", len(p.buffer), sum, m.Piece.Sum))
	}
	if p.left -= int64(len(p.buffer)); p.left < 0 {
		return fmt.Errorf("%w: its archive has %d bytes more than its files may have", errTooLarge, -p.left)
	}
	p.remaining = p.buffer
	return nil
}

// A treeReceiver receives the files of a folder, in as many connections as it takes, one after the
// other.
type treeReceiver struct {
	dir string
	// limit bounds the bytes of all files together.
	limit int64
	// alive is called when bytes have come.
	alive func()

	// mu is held by the connection that receives. It guards the rest.
	mu sync.Mutex
	// root is dir, opened; nil: nothing has come yet.
	root *os.Root
	// at is how much has come.
	at position
	// bytes is the size of all files so far, by their headers.
	bytes int64
	// now is the file of which at.Offset bytes have come, and file is open for the rest; nil:
	// the last one that came is whole.
	now  entry
	file *os.File
	// whole says that all has come.
	whole  bool
	closed bool
}

// newTreeReceiver makes one that receives into an empty folder.
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
	// What an archive has besides the bytes of files is bounded, too.
	most := in.limit - in.bytes + in.now.bytes - in.at.Offset
	archive := tar.NewReader(&pieceReader{c: c, w: w, left: most + min(maxHeaders*(maxEntries+1), math.MaxInt64-most)})
	for {
		h, err := archive.Next()
		switch {
		case errors.Is(err, errBroken):
			return err
		case errors.Is(err, io.EOF) && in.file == nil:
			in.whole = true
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("got the end of the archive, want %d more bytes of %q first", in.now.bytes-in.at.Offset, in.now.name)
		case err != nil:
			return err
		}
		if err := in.begin(h); err != nil {
			return err
		}
		if _, err := io.Copy(receivedFile{in}, archive); err != nil {
			return err
		}
		in.alive()
	}
}

// begin makes the folder or the file of a header. The bytes of a file follow. in.mu is held.
func (in *treeReceiver) begin(h *tar.Header) error {
	slashed := strings.TrimSuffix(h.Name, "/")
	if in.file != nil {
		// The archive of a new connection begins with the rest of the file that is not
		// whole.
		if slashed != in.now.name || h.Size != in.now.bytes-in.at.Offset || h.Typeflag != tar.TypeReg || unknownRecord(h) != "" {
			return fmt.Errorf("got %q of %d bytes, want %d more bytes of %q first", h.Name, h.Size, in.now.bytes-in.at.Offset, in.now.name)
		}
		return nil
	}
	name, unknown := filepath.FromSlash(slashed), unknownRecord(h)
	switch {
	case len(slashed) > maxPath || slashed == "." || !fs.ValidPath(slashed) || !filepath.IsLocal(name):
		return fmt.Errorf("got the name %.80q, want a path in the folder of at most %d bytes", h.Name, maxPath)
	case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg:
		return fmt.Errorf("got %q of type %q, want a file or a folder", h.Name, h.Typeflag)
	case unknown != "":
		return fmt.Errorf("got %q with the record %q, want no more than a path and a size", h.Name, unknown)
	case in.at.Entry == maxEntries:
		return fmt.Errorf("there are more than %d files and folders", maxEntries)
	case h.Size > in.limit-in.bytes:
		return fmt.Errorf("%w: %d bytes so far and %d of %q are more than %d", errTooLarge, in.bytes, h.Size, h.Name, in.limit)
	}
	if h.Typeflag == tar.TypeDir {
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
	in.bytes += h.Size
	in.file, in.now = f, entry{name: slashed, bytes: h.Size}
	return in.finish()
}

// unknownRecord is the name of the first record of an extended header that no sender of a
// checkpoint writes; "": there is none. Such a record may say that a file has holes (GNU.sparse),
// which would fill the disk without a byte of the connection.
func unknownRecord(h *tar.Header) string {
	for _, name := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if name != "path" && name != "size" {
			return name
		}
	}
	return ""
}

// errTooLarge is in the chain of the error of a checkpoint that is larger than the limit.
var errTooLarge = errors.New("the checkpoint is too large to be copied")

// A receivedFile is the file of the entry that comes. in.mu is held.
type receivedFile struct{ in *treeReceiver }

func (f receivedFile) Write(b []byte) (int, error) {
	n, err := f.in.file.Write(b)
	f.in.at.Offset += int64(n)
	if err != nil {
		return n, err
	}
	f.in.alive()
	return n, f.in.finish()
}

// finish closes the file if it is whole. in.mu is held.
func (in *treeReceiver) finish() error {
	if in.at.Offset < in.now.bytes {
		return nil
	}
	err := in.file.Close()
	in.file, in.now, in.at = nil, entry{}, position{in.at.Entry + 1, 0}
	return err
}

// A refusal is an error that the other end told.
type refusal struct{ failure }

func (r *refusal) Error() string { return r.Text }

// Is says that what was asked for is not there (fs.ErrNotExist).
func (r *refusal) Is(target error) bool { return r.Gone && target == fs.ErrNotExist }
