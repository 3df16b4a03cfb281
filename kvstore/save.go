package kvstore

import (
	"context"
	"fmt"
)

// Save writes all parameters and optimizer state into one file.
func (s *checkpoints) Save(ctx context.Context, uri string) error {
	if err := checkTarget(uri); err != nil {
		return fmt.Errorf("kvstore: save %s: %w", uri, err)
	}
	n, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := n.Wait(); err != nil {
		return err
	}
	return n.Write(ctx, uri)
}
