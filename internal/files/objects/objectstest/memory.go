// Package objectstest has a store in memory with faults, and the suite of tests that every store
// passes.
//
//	store := objectstest.New(map[string][]byte{"a/1.jpg": data})
//	store.Latency = 20 * time.Millisecond                  // fake time in a bubble of synctest
//	store.Fail = func(c objectstest.Call) error {          // the third read breaks
//		if c.Kind == objectstest.Read && c.Number == 3 {
//			return errors.New("connection reset")
//		}
//		return nil
//	}
package objectstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A Kind is a kind of call.
type Kind string

// The kinds of calls.
const (
	List Kind = "list"
	Stat Kind = "stat"
	Read Kind = "read"
)

// A Call is one call of a Store's method.
type Call struct {
	Kind Kind
	// Number counts the calls of this kind, from 1.
	Number int
	// Name is the object's, or the prefix of a list.
	Name string
	// Off and Length are the bytes of a read.
	Off, Length int64
}

// A Memory is a Store in memory. Set its fields before the first call.
type Memory struct {
	// Address is what URL returns; empty is "memory://test".
	Address string
	// Latency is how long each call waits for its first byte; a list waits once.
	Latency time.Duration
	// BytesPerSecond is the rate of each read; 0 is no limit.
	BytesPerSecond int64
	// Fail is asked before each call, not by two calls at once; the call ends with the error
	// that it returns. A read that fails has filled half of what it was to fill.
	Fail func(Call) error

	// failMu lets one call of Fail run at a time.
	failMu sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex

	objects  map[string]object
	versions int
	calls    []Call
	counts   map[Kind]int
	reading  int
	most     int
	bytes    int64
	closed   bool
}

type object struct {
	data []byte

	// size is what List and Stat say of the object's size.
	size int64

	version string
}

// New makes a store of these objects, whose bytes it does not copy.
func New(contents map[string][]byte) *Memory {
	m := &Memory{objects: map[string]object{}, counts: map[Kind]int{}}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		m.Put(name, contents[name])
	}
	return m
}

// Put makes or replaces an object: it has a new version.
func (m *Memory) Put(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions++
	m.objects[name] = object{data, int64(len(data)), fmt.Sprintf("v%d", m.versions)}
}

// Cut keeps the first size bytes of an object, of which List and Stat still say that it has all.
func (m *Memory) Cut(name string, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[name]
	o.data = o.data[:size:size]
	m.objects[name] = o
}

// Damage changes one byte of an object, which keeps its version.
func (m *Memory) Damage(name string, off int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[name]
	o.data = bytes.Clone(o.data)
	o.data[off] ^= 0xff
	m.objects[name] = o
}

// Remove removes an object.
func (m *Memory) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
}

// Calls are the calls so far.
func (m *Memory) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// MostReads is how many reads have been under way at once at most.
func (m *Memory) MostReads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

// BytesRead is how many bytes reads were asked for.
func (m *Memory) BytesRead() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Closed reports whether Close was called.
func (m *Memory) Closed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// begin counts a call, waits as long as it takes, and asks Fail.
func (m *Memory) begin(ctx context.Context, c Call) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		panic("objectstest: a call after Close")
	}
	m.counts[c.Kind]++
	c.Number = m.counts[c.Kind]
	m.calls = append(m.calls, c)
	m.mu.Unlock()
	wait := m.Latency
	if m.BytesPerSecond > 0 {
		wait += time.Duration(float64(c.Length) / float64(m.BytesPerSecond) * float64(time.Second))
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.Fail == nil {
		return nil
	}
	m.failMu.Lock()
	defer m.failMu.Unlock()
	return m.Fail(c)
}

// URL implements objects.Store.
func (m *Memory) URL() string {
	if m.Address == "" {
		return "memory://test"
	}
	return m.Address
}

// List implements objects.Store.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[objects.Info, error] {
	return func(yield func(objects.Info, error) bool) {
		if err := m.begin(ctx, Call{Kind: List, Name: prefix}); err != nil {
			yield(objects.Info{}, fmt.Errorf("objectstest: list %q in %s: %w", prefix, m.URL(), err))
			return
		}
		m.mu.Lock()
		var all []objects.Info
		for name, o := range m.objects {
			if strings.HasPrefix(name, prefix) {
				all = append(all, objects.Info{Name: name, Size: o.size, Version: o.version})
			}
		}
		m.mu.Unlock()
		slices.SortFunc(all, func(a, b objects.Info) int { return strings.Compare(a.Name, b.Name) })
		for _, info := range all {
			if ctx.Err() != nil {
				yield(objects.Info{}, fmt.Errorf("objectstest: list %q in %s: %w", prefix, m.URL(), context.Cause(ctx)))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Stat implements objects.Store.
func (m *Memory) Stat(ctx context.Context, name string) (objects.Info, error) {
	at := func(err error) (objects.Info, error) {
		return objects.Info{}, fmt.Errorf("objectstest: stat %s in %s: %w", name, m.URL(), err)
	}
	if err := m.begin(ctx, Call{Kind: Stat, Name: name}); err != nil {
		return at(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return at(fs.ErrNotExist)
	}
	return objects.Info{Name: name, Size: o.size, Version: o.version}, nil
}

// ReadRange implements objects.Store.
func (m *Memory) ReadRange(ctx context.Context, info objects.Info, p []byte, off int64) error {
	at := func(err error) error {
		return fmt.Errorf("objectstest: read %s in %s: %d bytes from byte %d of %d: %w", info.Name, m.URL(), len(p), off, info.Size, err)
	}
	m.mu.Lock()
	m.reading++
	m.most = max(m.most, m.reading)
	m.bytes += int64(len(p))
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.reading--
		m.mu.Unlock()
	}()
	fault := m.begin(ctx, Call{Kind: Read, Name: info.Name, Off: off, Length: int64(len(p))})
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[info.Name]
	if fault != nil {
		if ok && off >= 0 && off < int64(len(o.data)) {
			copy(p[:len(p)/2], o.data[off:])
		}
		return at(fault)
	}
	if err := objects.CheckRange(info, p, off); err != nil {
		return at(err)
	}
	switch {
	case !ok:
		return at(fs.ErrNotExist)
	case info.Version != "" && info.Version != o.version:
		return at(objects.ErrChanged)
	}
	if n := copy(p, o.data[min(off, int64(len(o.data))):]); n < len(p) {
		return at(io.ErrUnexpectedEOF)
	}
	return nil
}

// Close implements objects.Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
