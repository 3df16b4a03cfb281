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
// synced.
type boltState struct {
	db   *bbolt.DB
	path string
}

var boltBucket = []byte("scheduler")

// boltLock is how long a scheduler waits for the file of one that is just ending.
const boltLock = 2 * time.Second

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

func (s *boltState) Close() error { return s.db.Close() }
