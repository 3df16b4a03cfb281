package kvstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint"
)

// A Snapshot is what Save would have written at one moment, in this worker's memory.
type Snapshot struct {
	// done is closed when all has been read. The fields below are set before.
	done    chan struct{}
	err     error
	keys    []savedKey
	tensors []checkpoint.Tensor
	// config is the optimizer's JSON.
	config string
}

// snapshotReads is how many keys are read at once: enough to keep the servers busy, few enough that
// the first keys are free for their next push soon.
const snapshotReads = 4

// Snapshot starts to read what Save would write now. It takes the turns of all keys before it
// returns, and gives each back when the key was read: so the next push of a key waits, and no round
// that would be later than the others' can close without it.
func (s *checkpoints) Snapshot(ctx context.Context) (*Snapshot, error) {
	if !s.requests.flight.enter(false) {
		return nil, fmt.Errorf("kvstore: snapshot: %w", ErrClosed)
	}
	keys := s.keys.sorted()
	for i, k := range keys {
		if err := k.lock(ctx, "snapshot"); err != nil {
			for _, k := range keys[:i] {
				k.unlock()
			}
			s.requests.flight.leave(false)
			return nil, err
		}
	}
	n := &Snapshot{done: make(chan struct{})}
	go func() {
		defer close(n.done)
		defer s.requests.flight.leave(false)
		n.err = n.read(ctx, keys, s.states)
	}()
	return n, nil
}

// read reads the keys, whose turns the caller holds, and gives each back when it is read. Gradients
// of the last layers are pushed first, so keys that were initialised last are read first.
func (n *Snapshot) read(ctx context.Context, keys []*key, from *shardStates) error {
	type part struct {
		state  *keyState
		config string
	}
	parts := make(map[*key]*part, len(keys))
	for _, k := range keys {
		parts[k] = new(part)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(snapshotReads)
	for _, k := range slices.SortedFunc(slices.Values(keys), func(a, b *key) int { return cmp.Compare(b.id, a.id) }) {
		group.Go(func() (err error) {
			defer k.unlock()
			parts[k].state, parts[k].config, err = from.read(ctx, k)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Keys come by name, so that two files of one state are equal.
	for _, k := range keys {
		p := parts[k]
		n.config = cmp.Or(n.config, p.config)
		n.keys = append(n.keys, p.state.savedKey)
		n.tensors = append(n.tensors, p.state.tensors()...)
	}
	return nil
}

// Wait returns when all has been read: from then on the Snapshot does not use the store.
func (n *Snapshot) Wait() error {
	<-n.done
	return n.err
}

// Write writes the file, as Save does. uri is as for Save.
func (n *Snapshot) Write(ctx context.Context, uri string) error {
	meta, err := n.metadata()
	if err == nil {
		err = checkpoint.SaveURI(ctx, uri, meta, n.tensors)
	}
	if err != nil {
		// The error names the path.
		return fmt.Errorf("kvstore: save: %w", wrapUnsupported(err))
	}
	return nil
}

// WriteTo is Write to a file in a checkpoint.Place.
func (n *Snapshot) WriteTo(ctx context.Context, place checkpoint.Place, name string) error {
	meta, err := n.metadata()
	if err == nil {
		err = checkpoint.SaveTo(ctx, place, name, meta, n.tensors)
	}
	if err != nil {
		return fmt.Errorf("kvstore: save: %w", err)
	}
	return nil
}

func (n *Snapshot) metadata() (map[string]string, error) {
	if err := n.Wait(); err != nil {
		return nil, err
	}
	list, err := json.Marshal(n.keys)
	if err != nil {
		return nil, err
	}
	meta := map[string]string{metaStore: layout, metaKeys: string(list)}
	if n.config != "" {
		meta[metaOptimizer] = n.config
	}
	return meta, nil
}

// tensors returns the key's tensors in a file.
func (k *keyState) tensors() (list []checkpoint.Tensor) {
	if k.open != nil {
		return k.open.tensors(&k.savedKey)
	}
	for i, values := range k.values {
		name := k.Name
		if i > 0 {
			name = slotName(k.Name, k.Slots[i-1])
		}
		list = append(list, checkpoint.Float32s(name, k.shape(), values))
	}
	return list
}

// checkTarget returns an error for a URI that cannot be written, as far as that can be known
// beforehand.
func checkTarget(uri string) error {
	path, err := checkpoint.LocalPath(uri)
	if errors.Is(err, checkpoint.ErrScheme) {
		// Opening the target checks it.
		return nil
	}
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("got a folder, want a file")
	}
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a file, want a folder", filepath.Dir(path))
	}
	return err
}

// wrapUnsupported adds ErrUnsupported to checkpoint's error for an unknown scheme.
func wrapUnsupported(err error) error {
	if errors.Is(err, checkpoint.ErrScheme) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
