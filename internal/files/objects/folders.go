package objects

import (
	"context"
)

// foldersOf returns the folders directly below the root of a store that knows folders, sorted.
func foldersOf(ctx context.Context, store Store) ([]string, error) {
	if f, ok := store.(interface {
		Folders(ctx context.Context) ([]string, error)
	}); ok {
		return f.Folders(ctx)
	}
	return nil, nil
}
