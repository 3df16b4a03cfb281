package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/paragon-train/paragon/internal/store/wire"
)

// A boltState keeps records in one bucket of a bbolt file. A write is one transaction, which is
// synced: when Write returns, a crash of the machine takes nothing back, and a crash before that
// leaves all or none of the records. The file is locked while it is open, so that two schedulers on
// one host cannot write the same journal; on a network file system the lock may not hold, and etcd
// is for several hosts.
type boltState struct {
	db   *bbolt.DB
	path string
}

var boltBucket = []byte("scheduler")

// boltLock is how long a scheduler waits for the file of one that is just ending.
const boltLock = 2 * time.Second

// openBolt opens the file, which is made if need be. The list of free pages is not synced: it is
// found again when the file is opened, and each write is a sync shorter.
func openBolt(path string) (State, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: boltLock, NoFreelistSync: true})
	if errors.Is(err, berrors.ErrTimeout) {
		err = fmt.Errorf("%w: the file has been locked for %v", ErrTaken, boltLock)
	}
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(boltBucket)
			return err
		})
		if err != nil {
			db.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler: open state %s: %w", path, err)
	}
	return &boltState{db, path}, nil
}

// Load implements State. The values are cloned, since bbolt's live no longer than the transaction.
func (s *boltState) Load(context.Context) (records []Record, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(boltBucket).ForEach(func(k, v []byte) error {
			records = append(records, Record{string(k), slices.Clone(v)})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("scheduler: load state %s: %w", s.path, err)
	}
	return records, nil
}

// Write implements State.
func (s *boltState) Write(_ context.Context, records []Record) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		for _, r := range records {
			var err error
			if r.Value == nil {
				err = b.Delete([]byte(r.Key))
			} else {
				err = b.Put([]byte(r.Key), r.Value)
			}
			if err != nil {
				return fmt.Errorf("record %s of %d bytes: %w", wire.Shown(r.Key), len(r.Value), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("scheduler: write %d records to state %s: %w", len(records), s.path, err)
	}
	return nil
}

// Close implements State, and unlocks the file.
func (s *boltState) Close() error { return s.db.Close() }
