package logfile

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// A Journal appends events to the log. Events are buffered in order, and written and synced
// together: the first goroutine that waits does it for all earlier events, so that one sync
// serves many trials.
type Journal struct {
	path string
	// file is nil if nothing is kept: then every event counts as written.
	file vfs.File

	// mu guards all below. It is not held while the file is written.
	mu sync.Mutex
	// ready is signalled when synced or err changes.
	ready sync.Cond
	// buf has the lines that were not written yet, and spare is memory for the next ones.
	buf, spare []byte
	// taken and synced are how many events were appended, and are on the disk. taken never falls
	// behind synced.
	taken, synced uint64
	// size is the number of bytes written.
	size int64
	// writing says that a goroutine writes and syncs a batch. There is one at a time.
	writing bool
	// err is why no more can be written. It stays.
	err error
}

// New continues a log of so many events and bytes.
func New(path string, file vfs.File, events uint64, size int64) *Journal {
	j := &Journal{path: path, file: file, taken: events, synced: events, size: size}
	j.ready.L = &j.mu
	return j
}

// Create makes an empty log at a path.
func Create(fsys vfs.FS, path string) (*Journal, error) {
	f, err := fsys.Create(path)
	if err != nil {
		return nil, fmt.Errorf("tune: create log: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("tune: create log %s: sync its folder: %w", path, err)
	}
	return New(path, f, 0, 0), nil
}

// Append buffers the line of event number seq, which appendLine adds to what it is given. Calls
// come in the order of the events.
func (j *Journal) Append(seq uint64, appendLine func(b []byte) []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = seq + 1
	if j.file == nil {
		j.synced = j.taken
		return
	}
	j.buf = appendLine(j.buf)
}

// Wait returns when the event is on disk, or the error that prevents it.
func (j *Journal) Wait(seq uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.synced <= seq && j.err == nil {
		if j.writing {
			j.ready.Wait()
			continue
		}
		j.flush()
	}
	if j.synced > seq {
		return nil
	}
	return j.err
}

// flush writes and syncs the buffer. It releases j.mu meanwhile.
func (j *Journal) flush() {
	// Lines that come while this batch is written go into the next one.
	batch, upTo, from := j.buf, j.taken, j.size
	j.buf, j.writing = j.spare[:0], true
	j.mu.Unlock()
	n, err := j.file.Write(batch)
	if err == nil {
		err = j.file.Sync()
	}
	j.mu.Lock()
	j.spare, j.writing = batch, false
	j.size += int64(n)
	if err != nil {
		j.err = fmt.Errorf("tune: log %s: append %d bytes at %d: %w", j.path, len(batch), from, diskFull(err))
	} else {
		j.synced = upTo
	}
	j.ready.Broadcast()
}

// diskFull adds what to do to the error of a full disk.
func diskFull(err error) error {
	if vfs.Full(err) {
		return fmt.Errorf("%w: make room there, and resume the search", err)
	}
	return err
}

// Done returns how many events are on the disk.
func (j *Journal) Done() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced
}

// Broken returns the error that ended the log, if one did.
func (j *Journal) Broken() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close writes what is left.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	var err error
	if j.taken > 0 {
		err = j.Wait(j.taken - 1)
	}
	if closeErr := j.file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("tune: close log %s: %w", j.path, closeErr)
	}
	return err
}
