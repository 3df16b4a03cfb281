// Package checkpointtest has a bucket in memory that fails on demand, for tests of what writes
// checkpoints.
package checkpointtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/checkpoint"
)

// Scheme is that of a Bucket's URI.
const Scheme = "checkpointtest"

// A Bucket keeps files in memory, each whole or not at all.
type Bucket struct {
	// Fault is asked before each "write" begins, before what was written comes into place
	// ("commit") and when it is in place ("committed"), and before each "open", "list" and
	// "remove". It may wait. The call returns the error that Fault returns. A nil Fault never
	// fails.
	Fault func(ctx context.Context, op, name string) error

	// mu guards files.
	mu    sync.Mutex
	files map[string][]byte
}

var buckets struct {
	// mu guards byName.
	mu     sync.Mutex
	byName map[string]*Bucket
}

// New makes a Bucket and the URI that checkpoint.OpenPlace finds it by.
func New() (b *Bucket, uri string) {
	buckets.mu.Lock()
	defer buckets.mu.Unlock()
	if buckets.byName == nil {
		buckets.byName = map[string]*Bucket{}
		checkpoint.RegisterPlace(Scheme, open)
	}
	name := fmt.Sprint(len(buckets.byName))
	b = &Bucket{files: map[string][]byte{}}
	buckets.byName[name] = b
	return b, Scheme + "://" + name + "/run"
}

func open(_ context.Context, u *url.URL) (checkpoint.Place, error) {
	buckets.mu.Lock()
	defer buckets.mu.Unlock()
	b := buckets.byName[u.Host]
	if b == nil {
		return nil, fmt.Errorf("no bucket %q", u.Host)
	}
	return place{b, strings.Trim(u.Path, "/") + "/"}, nil
}

// Names returns the names of all files, sorted.
func (b *Bucket) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.files))
}

func (b *Bucket) fault(ctx context.Context, op, name string) error {
	if b.Fault == nil {
		return nil
	}
	return b.Fault(ctx, op, name)
}

type place struct {
	b      *Bucket
	prefix string
}

func (p place) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	name = p.prefix + name
	if err := p.b.fault(ctx, "write", name); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := errors.Join(p.b.fault(ctx, "commit", name), context.Cause(ctx)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	p.b.mu.Lock()
	p.b.files[name] = text.Bytes()
	p.b.mu.Unlock()
	return p.b.fault(ctx, "committed", name)
}

type source struct{ *bytes.Reader }

func (s source) Size() (int64, error) { return s.Reader.Size(), nil }
func (source) Close() error           { return nil }

func (p place) Open(ctx context.Context, name string) (checkpoint.Source, error) {
	name = p.prefix + name
	if err := p.b.fault(ctx, "open", name); err != nil {
		return nil, err
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	text, ok := p.b.files[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return source{bytes.NewReader(text)}, nil
}

func (p place) List(ctx context.Context, prefix string) (names []string, err error) {
	if err := p.b.fault(ctx, "list", p.prefix+prefix); err != nil {
		return nil, err
	}
	for _, name := range p.b.Names() {
		if rest, ok := strings.CutPrefix(name, p.prefix); ok && strings.HasPrefix(rest, prefix) {
			names = append(names, rest)
		}
	}
	return names, nil
}

func (p place) Remove(ctx context.Context, name string) error {
	name = p.prefix + name
	if err := p.b.fault(ctx, "remove", name); err != nil {
		return err
	}
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	delete(p.b.files, name)
	return nil
}

func (place) Close() error { return nil }

// Change changes what a file holds.
func (b *Bucket) Change(name string, change func(content []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content := slices.Clone(b.files[name])
	change(content)
	b.files[name] = content
}
