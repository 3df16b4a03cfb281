package tune

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// logName is the log's file in the study's folder.
const logName = "log.jsonl"

// A journal appends events to the log. Events are buffered in order, and written and synced
// together: the first goroutine that waits does it for all earlier events, so that one sync
// serves many trials.
type journal struct {
	path string
	file vfs.File // nil: nothing is kept

	mu      sync.Mutex // guards all below
	ready   sync.Cond  // signalled when synced or err changes
	buf     []byte     // not yet written
	spare   []byte
	taken   uint64 // events appended
	synced  uint64 // events on the disk
	size    int64  // bytes written
	writing bool
	err     error
}

// newJournal continues a log of so many events and bytes.
func newJournal(path string, file vfs.File, events uint64, size int64) *journal {
	j := &journal{path: path, file: file, taken: events, synced: events, size: size}
	j.ready.L = &j.mu
	return j
}

// createJournal makes an empty log.
func createJournal(fsys vfs.FS, dir string) (*journal, error) {
	path := filepath.Join(dir, logName)
	f, err := fsys.Create(path)
	if err != nil {
		return nil, fmt.Errorf("tune: create log: %w", err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("tune: create log %s: sync its folder: %w", path, err)
	}
	return newJournal(path, f, 0, 0), nil
}

// append buffers an event. Calls come in the order of the events.
func (j *journal) append(e *Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = e.Seq + 1
	if j.file == nil {
		j.synced = j.taken
		return
	}
	j.buf = appendEvent(j.buf, e)
}

// wait returns when the event is on disk, or the error that prevents it.
func (j *journal) wait(seq uint64) error {
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
func (j *journal) flush() {
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

// done returns how many events are on the disk.
func (j *journal) done() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced
}

// broken returns the error that ended the log, if one did.
func (j *journal) broken() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// close writes what is left.
func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	var err error
	if j.taken > 0 {
		err = j.wait(j.taken - 1)
	}
	if closeErr := j.file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("tune: close log %s: %w", j.path, closeErr)
	}
	return err
}
