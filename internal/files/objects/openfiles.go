package objects

import (
	"container/list"
	"context"
	"errors"
	"os"
	"sync"
)

// openFiles keeps files open that are read again, the ones used last, within a bound: a folder of a
// million images has more files than a process may open.
type openFiles struct {
	// turns has one for each read under way, at most as many as files may be open.
	turns chan struct{}

	// mu guards what follows, and the fields of files that say so.
	mu sync.Mutex

	limit  int
	byPath map[string]*openFile

	// idle has each *openFile that nobody reads, the one used last in front.
	idle *list.List
}

// An openFile is a file that is open or about to be.
type openFile struct {
	path string

	// once opens the file.
	once sync.Once

	f   *os.File
	err error

	// readers counts who reads the file; it is guarded by openFiles.mu.
	readers int

	// element is the file's place in idle while it has no readers. openFiles.mu guards it.
	element *list.Element

	// dropped says that the file's last reader closes it. openFiles.mu guards it.
	dropped bool
}

func newOpenFiles(limit int) *openFiles {
	return &openFiles{turns: make(chan struct{}, limit), limit: limit, byPath: map[string]*openFile{}, idle: list.New()}
}

// open returns a file to read. The caller calls done once, with false if the next reader is to open
// it anew.
func (o *openFiles) open(ctx context.Context, path string) (f *os.File, done func(good bool), err error) {
	select {
	case o.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		<-o.turns
		return nil, nil, context.Cause(ctx)
	}
	file, old := o.take(path)
	if old != nil {
		_ = old.Close()
	}
	file.once.Do(func() { file.f, file.err = os.Open(path) })
	done = func(good bool) { o.release(file, good) }
	if file.err != nil {
		done(false)
		return nil, nil, file.err
	}
	return file.f, done, nil
}

// take returns the file of a path for one more reader, and one to close to make room for it. There
// is one: each open file that is not idle has a reader, and each reader a turn.
func (o *openFiles) take(path string) (file *openFile, old *os.File) {
	o.mu.Lock()
	defer o.mu.Unlock()
	file = o.byPath[path]
	if file == nil {
		if len(o.byPath) >= o.limit {
			if last := o.idle.Back(); last != nil {
				victim := o.idle.Remove(last).(*openFile)
				delete(o.byPath, victim.path)
				old = victim.f
			}
		}
		file = &openFile{path: path}
		o.byPath[path] = file
	}
	if file.element != nil {
		o.idle.Remove(file.element)
		file.element = nil
	}
	file.readers++
	return file, old
}

func (o *openFiles) release(file *openFile, good bool) {
	defer func() { <-o.turns }()
	o.mu.Lock()
	file.readers--
	if !good && !file.dropped {
		file.dropped = true
		delete(o.byPath, file.path)
	}
	var closing *os.File
	switch {
	case file.readers > 0:
	case file.dropped:
		closing = file.f
	default:
		file.element = o.idle.PushFront(file)
	}
	o.mu.Unlock()
	if closing != nil {
		_ = closing.Close()
	}
}

// close closes all files. None is being read.
func (o *openFiles) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for e := o.idle.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*openFile).f.Close())
	}
	o.idle.Init()
	clear(o.byPath)
	return errors.Join(errs...)
}
