package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A State is the journal: it keeps the records of a Core where they outlive the scheduler. Its
// methods are called one at a time.
type State interface {
	// Load returns all records.
	Load(ctx context.Context) ([]Record, error)
	// Write keeps records, all or none of them, in their order: a later one replaces an earlier
	// one of its key, and one without a value removes it. When it returns nil they survive a
	// crash. After an error the same records may be written again. ErrTaken is final.
	Write(ctx context.Context, records []Record) error
	Close() error
}

// ErrTaken says that another scheduler keeps its records in the same State.
var ErrTaken = errors.New("taken by another scheduler")

// OpenState opens the State at a place: the path of a file, which is made if need be, or
//
//	etcd://host:port[,host:port...]/prefix   (etcds:// for TLS)
func OpenState(ctx context.Context, place string) (State, error) {
	scheme, rest, found := strings.Cut(place, "://")
	switch {
	case !found:
		return openBolt(place)
	case scheme == "etcd" || scheme == "etcds":
		return openEtcd(ctx, scheme, rest)
	}
	return nil, fmt.Errorf("scheduler: state %q: want the path of a file, etcd://host:port/prefix or etcds://host:port/prefix", place)
}

// begin returns the Core of the journal's job, or of a new job if the journal is empty or has
// another job that has ended, whose records it removes.
func begin(ctx context.Context, st State, set Settings) (*Core, error) {
	records, err := st.Load(ctx)
	if err != nil {
		return nil, err
	}
	if job, over := endedJob(records); over && job != set.Job {
		for i := range records {
			records[i].Value = nil
		}
		if err := st.Write(ctx, records); err != nil {
			return nil, err
		}
		records = nil
	}
	return Restore(set, time.Now(), records)
}

// endedJob is the name of the job whose records these are, and whether it has ended.
func endedJob(records []Record) (name string, over bool) {
	for _, r := range records {
		var k keptJob
		if r.Key == "job" && json.Unmarshal(r.Value, &k) == nil {
			return k.Job, k.Phase == wire.PhaseFinished || k.Phase == wire.PhaseFailed
		}
	}
	return "", false
}
