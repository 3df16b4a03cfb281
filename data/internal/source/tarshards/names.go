package tarshards

import (
	"context"
	"fmt"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source/shards"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// compressed are the ends of names of archives that have no random access.
var compressed = []string{".tar.gz", ".tgz", ".tar.zst", ".tar.zstd", ".tar.bz2", ".tar.xz", ".tar.lz4"}

func checkName(name string) error {
	for _, end := range compressed {
		if strings.HasSuffix(strings.ToLower(name), end) {
			return errGzip
		}
	}
	return nil
}

// listShards finds the shards in their order; of a store all .tar files at its top by name, but
// hidden ones.
func listShards(ctx context.Context, store objects.Store, cfg Config) ([]objects.Info, error) {
	if cfg.Shards == "" && len(cfg.Files) == 0 {
		var found []objects.Info
		for info, err := range store.List(ctx, "") {
			if err != nil {
				return nil, err
			}
			if shards.Hidden(info.Name) || strings.Contains(info.Name, "/") {
				continue
			}
			if err := checkName(info.Name); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", store.URL(), info.Name, err)
			}
			if strings.HasSuffix(info.Name, ".tar") {
				found = append(found, info)
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no .tar files are there", store.URL())
		}
		return found, nil
	}
	var found []objects.Info
	var err error
	if len(cfg.Files) > 0 {
		found, err = shards.Stat(ctx, store, cfg.Files)
	} else {
		found, err = shards.Find(ctx, store, cfg.Shards)
	}
	if err != nil {
		return nil, err
	}
	for _, info := range found {
		if err := checkName(info.Name); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", store.URL(), info.Name, err)
		}
	}
	return found, nil
}
