package simulate

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/scheduler"
)

// A disk keeps what the scheduler has decided, also while there is none.
type disk struct {
	// mu guards the rest.
	mu      sync.Mutex
	rng     *rand.Rand
	records map[string][]byte
	// mounted is the one mount that may write; nil: none may.
	mounted *mount
}

func newDisk(seed uint64) *disk {
	return &disk{rng: rand.New(rand.NewPCG(seed, 3)), records: map[string][]byte{}}
}

// mount returns the disk as one scheduler has it. What an earlier one writes from now on is lost,
// as it is dead.
func (d *disk) mount() *mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted = &mount{d}
	return d.mounted
}

// unmount ends the writes of the current writer.
func (d *disk) unmount() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted = nil
}

// A mount is a scheduler.State.
type mount struct{ d *disk }

// Load implements scheduler.State.
func (m *mount) Load(context.Context) (list []scheduler.Record, err error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.d.records)) {
		list = append(list, scheduler.Record{Key: key, Value: slices.Clone(m.d.records[key])})
	}
	return list, nil
}

// Write implements scheduler.State. It takes some time, in which the scheduler may be killed:
// before what it writes is kept, or after.
func (m *mount) Write(ctx context.Context, records []scheduler.Record) error {
	m.d.mu.Lock()
	before, after := time.Duration(m.d.rng.Int64N(2e6)), time.Duration(m.d.rng.Int64N(2e6))
	m.d.mu.Unlock()
	if err := sleep(ctx, before); err != nil {
		return err
	}
	m.d.mu.Lock()
	if m.d.mounted != m {
		m.d.mu.Unlock()
		return errors.New("simulation: a killed scheduler writes")
	}
	for _, r := range records {
		if m.d.records[r.Key] = slices.Clone(r.Value); r.Value == nil {
			delete(m.d.records, r.Key)
		}
	}
	m.d.mu.Unlock()
	return sleep(ctx, after)
}

// Close implements scheduler.State.
func (*mount) Close() error { return nil }
