package kvstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/internal/observe/shown"
	"github.com/paragon-train/paragon/internal/store/shard"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/store/wire"
	"github.com/paragon-train/paragon/optim"
)

func (s *store) Load(ctx context.Context, uri string) error {
	verb := "load " + uri
	if s.joining.Load() {
		return s.notYet(verb)
	}
	s.mu.Lock()
	s.loads++
	name := fmt.Sprintf("load/%d/%d", s.era, s.loads)
	s.mu.Unlock()
	// No worker's push may be under way when the servers' values are replaced.
	err := s.requests.ask(ctx, verb, func(ctx context.Context) error { return s.node.Barrier(ctx, name) })
	if err != nil {
		return err
	}
	if leader := s.leader(); leader != s.NodeID() {
		return s.awaitLoad(ctx, verb, name, leader)
	}
	err = s.loadFile(ctx, uri)
	result := ""
	if err != nil {
		result = loadFailed
	}
	told := s.requests.ask(ctx, verb, func(ctx context.Context) error { return s.node.Signal(ctx, name, result) })
	if err != nil {
		return err // the other workers' waits end with the signal, or with the job
	}
	return told
}

// loadFailed is the value of a load's signal if the leader could not load the file.
const loadFailed = "failed"

// awaitLoad waits until the leader has loaded the file, and then reads each key's round from the
// servers. If the leader is lost before it signals that it is done, the servers may hold a part of
// the file.
func (s *store) awaitLoad(ctx context.Context, verb, name string, leader NodeID) error {
	await := func(ctx context.Context) error {
		result, err := s.node.Await(ctx, name)
		if err == nil && result == loadFailed {
			return fmt.Errorf("%w: the worker that reads the file could not load it; see its error", ErrUnavailable)
		}
		return err
	}
	gone := func(m wire.Membership) bool { return !slices.Contains(counting(m), leader) }
	err := s.requests.ask(ctx, verb, func(ctx context.Context) error {
		changed, err := s.whileFollowing(ctx, gone, await)
		var refusal *transport.Refusal // the scheduler may notice the loss before this worker does
		if !changed && !(errors.As(err, &refusal) && refusal.Code == wire.CodeUnavailable) {
			return err
		}
		// The leader may have finished before it was lost or left.
		last, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if await(last) == nil {
			return nil
		}
		return fmt.Errorf("%w: the worker that read the file (node %d) was lost before it finished: some keys may be loaded and others not; "+
			"load again", ErrUnavailable, leader)
	})
	if err != nil {
		return err
	}
	return forKeys(ctx, s.sorted(), func(ctx context.Context, k *key) error {
		if err := k.findRound(ctx); err != nil {
			return err
		}
		return k.afterLoad(ctx)
	})
}

// smallAtOnce is how many small keys are loaded at one time. Each takes the time of its messages,
// with backups those of three processes.
const smallAtOnce = 64

// forKeys calls do for all keys, for small ones at the same time, until one fails or ctx ends.
// Larger ones come one after the other, which bounds the memory. Without an error do has been
// called for all of them.
func forKeys(ctx context.Context, keys []*key, do func(ctx context.Context, k *key) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(smallAtOnce)
	for _, k := range keys {
		if err := ctx.Err(); err != nil { // where a key has failed the group has its error
			group.Go(func() error { return fmt.Errorf("kvstore: load: %w", err) })
			break
		}
		if k.form == wire.FormDense && k.small() {
			group.Go(func() error { return do(ctx, k) })
		} else if err := do(ctx, k); err != nil {
			group.Go(func() error { return err })
		}
	}
	return group.Wait()
}

// afterLoad drops the key's residuals, and allows one more Init of it.
func (k *key) afterLoad(ctx context.Context) error {
	if err := k.lockPushes(ctx, "load"); err != nil {
		return err
	}
	defer k.unlockPushes()
	k.dropResiduals()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reinit = true
	return nil
}

// loadFile checks all of the file, and only then writes it to the servers.
func (s *store) loadFile(ctx context.Context, uri string) error {
	file, err := checkpoint.OpenURI(ctx, uri)
	if err != nil {
		return finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, wrapUnsupported(err)))
	}
	defer file.Close()
	saved, cfg, err := s.check(file)
	if err != nil {
		return exitreport.Final(exitreport.NoResume, finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, err)))
	}
	if err := file.Verify(); err != nil {
		return finalLoad(fmt.Errorf("kvstore: load %s: %w", uri, err))
	}
	if !file.HasChecksums() {
		s.logger.Warn("kvstore: load: the file has no checksums (an older version of Paragon wrote it); it is not verified", "file", uri)
	}
	keys := make([]*key, len(saved))
	for i := range saved {
		x := &saved[i]
		if keys[i] = s.initialised(x.Name); keys[i] == nil {
			d := x.declare()
			if keys[i], err = s.place(ctx, d); err != nil {
				return err
			}
		}
		for j, place := range keys[i].shards {
			if err := keys[i].fitsFrame("load", j, 4*int(place.Length)*(1+len(x.Slots))); err != nil {
				return err
			}
		}
	}
	savedOf := make(map[*key]*savedKey, len(keys))
	for i, k := range keys {
		savedOf[k] = &saved[i]
	}
	err = forKeys(ctx, keys, func(ctx context.Context, k *key) error {
		x := savedOf[k]
		if err := k.writeShards(ctx, file, x, s.initialSlots(x)); err != nil {
			return err
		}
		k.setRound(x.Round)
		k.takeShape(x.Shape)
		return k.afterLoad(ctx)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, k := range keys {
		s.keys[k.name] = k
	}
	now := s.optimizer
	s.saved = nil
	if now == nil {
		s.saved = cfg
	}
	s.mu.Unlock()
	return s.restoreRates(ctx, cfg, now)
}

func (k *savedKey) declare() wire.Declare {
	d := wire.Declare{Name: k.Name, Form: wire.FormDense, Rule: wire.RuleOptimizer, Size: k.Size, RowLen: k.RowLength, Table: k.Table}
	switch k.Form {
	case "rows":
		d.Form = wire.FormRows
	case "open":
		d.Form, d.Size = wire.FormOpen, 0
	}
	if k.Average {
		d.Rule = wire.RuleAverage
	}
	return d
}

// check reads the metadata and compares it with the file's tensors, this worker's keys and its
// optimizer.
func (s *store) check(file *checkpoint.File) ([]savedKey, *optim.Config, error) {
	meta := file.Metadata()
	switch got := meta[metaStore]; {
	case got != layout && got != oldLayout:
		return nil, nil, fmt.Errorf("%s in the metadata: got %s, want %q or %q: Save did not write this file", metaStore, shown.Name(got), layout, oldLayout)
	case got == layout && !file.HasChecksums():
		return nil, nil, fmt.Errorf("%w: it has no checksums, and a file with %s %q in the metadata must have them", checkpoint.ErrDamaged, metaStore, layout)
	}
	var saved []savedKey
	if err := json.Unmarshal([]byte(meta[metaKeys]), &saved); err != nil {
		return nil, nil, fmt.Errorf("%s in the metadata: %w", metaKeys, err)
	}
	var cfg *optim.Config
	if text := meta[metaOptimizer]; text != "" {
		c, err := optim.Decode([]byte(text))
		if err != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: %w", metaOptimizer, err)
		}
		cfg = &c
	}
	s.mu.Lock()
	now := s.optimizer
	s.mu.Unlock()
	var want []string
	if now != nil {
		o, err := optim.New(*now)
		if err != nil {
			return nil, nil, err
		}
		want = o.SlotNames()
	}
	found := map[string]*savedKey{}
	for i := range saved {
		x := &saved[i]
		if err := wire.CheckKeyName(x.Name); err != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: entry %d: %w", metaKeys, i, err)
		}
		if s.renamedStatistic(x) {
			x.tensor, x.Name = x.Name, x.Name[len(oldStatistics):]
		}
		if found[x.Name] != nil {
			return nil, nil, fmt.Errorf("%s in the metadata: entry %d: got the name %s twice", metaKeys, i, wire.Shown(x.Name))
		}
		found[x.Name] = x
		rows, open := x.Form == "rows" || x.Form == "open", x.Form == "open"
		if x.Size == 0 && !open || x.Size > math.MaxInt/16 || !rows && x.Form != "dense" || rows != (x.RowLength > 0) || rows && x.Size%x.RowLength != 0 || rows && x.Average {
			return nil, nil, fmt.Errorf("key %s: got form %s, %d values in rows of %d, average %v", wire.Shown(x.Name), shown.Name(x.Form), x.Size, x.RowLength, x.Average)
		}
		if err := x.checkShape(s.initialised(x.Name)); err != nil {
			return nil, nil, fmt.Errorf("key %s: %w", wire.Shown(x.Name), err)
		}
		if _, err := shard.DecodeTable(x.Table); err != nil || !rows && x.Table != "" {
			return nil, nil, fmt.Errorf("key %s: the table %s: %w", wire.Shown(x.Name), wire.Shown(x.Table), cmp.Or(err, errors.New("got one for a dense key, want none")))
		}
		if len(x.Slots) > maxSlots {
			return nil, nil, fmt.Errorf("key %s: got %d slots, want at most %d", wire.Shown(x.Name), len(x.Slots), maxSlots)
		}
		if open {
			if err := checkIDs(file, x); err != nil {
				return nil, nil, fmt.Errorf("key %s: %w", wire.Shown(x.Name), err)
			}
		}
		for j := -1; j < len(x.Slots); j++ {
			name := x.tensorName()
			if j >= 0 {
				name = slotName(x.Name, x.Slots[j])
			}
			if err := checkTensor(file, name, x); err != nil {
				return nil, nil, err
			}
		}
		if now != nil && !x.Average && len(x.Slots) > 0 && !slices.Equal(x.Slots, want) {
			return nil, nil, fmt.Errorf("key %s: %w: got the optimizer state %s, want %q of %s", wire.Shown(x.Name), ErrConflict, shown.Names(x.Slots), want, now.Name)
		}
	}
	for _, k := range s.sorted() {
		x := found[k.name]
		if x == nil {
			return nil, nil, fmt.Errorf("key %s: %w: this worker has initialised it, and the file does not hold it", wire.Shown(k.name), ErrUnknownKey)
		}
		d := x.declare()
		if err := k.checkSame(&d); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("key %s: the file holds %s", wire.Shown(k.name), describe(d.Form, d.Rule, d.Size, d.RowLen)), err)
		}
	}
	return saved, cfg, nil
}

// oldStatistics is the prefix of the names of running statistics, as package worker wrote them in
// files of layout 1.
const oldStatistics = "state/"

// renamedStatistic reports whether a saved key is a running statistic under its old name.
func (s *store) renamedStatistic(x *savedKey) bool {
	name, old := strings.CutPrefix(x.Name, oldStatistics)
	return old && x.Average && s.initialised(x.Name) == nil && s.initialised(name) != nil
}

// initialised returns the key of this name, or nil if this worker has not initialised it.
func (s *store) initialised(name string) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[name]
}

// checkTensor checks that a file has this tensor, with the key's shape.
func checkTensor(file *checkpoint.File, name string, x *savedKey) error {
	t, err := file.Tensor(name)
	if err != nil {
		return err
	}
	if t.DType != checkpoint.F32 || !slices.Equal(t.Shape, x.shape()) {
		return fmt.Errorf("tensor %s: got %s %v, want %s %v", wire.Shown(name), t.DType, t.Shape, checkpoint.F32, x.shape())
	}
	return nil
}

// initialSlots returns the optimizer whose initial slots a key gets that was saved without slots;
// nil if there is none.
func (s *store) initialSlots(x *savedKey) *optim.Optimizer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.optimizer == nil || x.Average || len(x.Slots) > 0 {
		return nil
	}
	o, err := optim.New(*s.optimizer)
	if err != nil {
		return nil // SetOptimizer has checked it
	}
	return o
}

// writeShards writes the file's values and slots to every shard of the key. If opt is not nil,
// slots that the file lacks start with opt's values.
func (k *key) writeShards(ctx context.Context, file *checkpoint.File, x *savedKey, opt *optim.Optimizer) error {
	if k.form == wire.FormOpen {
		return k.writeOpen(ctx, file, x, opt)
	}
	slots := x.Slots
	tensors := make([][]float32, 1+len(slots))
	for i := range tensors {
		name := x.tensorName()
		if i > 0 {
			name = slotName(x.Name, slots[i-1])
		}
		tensors[i] = make([]float32, k.size)
		if err := file.ReadFloat32s(name, tensors[i]); err != nil {
			return keyError("load", x.Name, err, "")
		}
	}
	if opt != nil {
		for _, slot := range opt.NewState(k.size).Slots {
			slots, tensors = append(slots[:len(slots):len(slots)], slot.Name), append(tensors, slot.Values)
		}
	}
	return k.s.requests.everyShard(ctx, "load", k, func(c *call, i int) error {
		head := &wire.WriteState{Init: k.initHead(i), Round: x.Round, Slots: slots}
		c.request, c.origin, c.answer = head, &head.Init.Origin, &wire.Ack{}
		c.payload = c.payload[:0]
		for _, values := range tensors {
			var r alignedBuffer
			c.payload = append(c.payload, r.floats(k.s.native, k.shardValues(i, values)))
		}
		return nil
	}, nil)
}
