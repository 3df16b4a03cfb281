package list

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/data/internal/source/manifest"
	"github.com/paragon-train/paragon/internal/files/objects"
)

const (
	// few is up to how many images are asked for one by one: their folder may have many more.
	few = 1000
	// asking is how many of them are asked for at once.
	asking = 16
)

// find appends the objects of these names to m, in their order, those that are not there with size
// −1. Known is false if the store has no lists, and so the sizes of many are not known.
func find(ctx context.Context, store objects.Store, names []string, m *manifest.Manifest) (known bool, err error) {
	wanted := make(map[string]uint32, len(names))
	for _, name := range names {
		wanted[name] = absent
	}
	var there manifest.Manifest
	if len(wanted) <= few {
		err = stat(ctx, store, wanted, &there)
	} else {
		err = list(ctx, store, names, wanted, &there)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		for _, name := range names {
			m.Append(objects.Info{Name: name, Size: -1})
		}
		m.Trim()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if at := wanted[name]; at == absent {
			m.Append(objects.Info{Name: name, Size: -1})
		} else {
			m.Append(there.At(int(at)))
		}
	}
	m.Trim()
	return true, nil
}

// absent stands for the place of an object that is not there.
const absent = 1<<32 - 1

// list finds the wanted objects by listing their folder, and sets their places in there.
func list(ctx context.Context, store objects.Store, names []string, wanted map[string]uint32, there *manifest.Manifest) error {
	for o, err := range store.List(ctx, commonFolder(names)) {
		if err != nil {
			return err
		}
		if _, ok := wanted[o.Name]; ok {
			wanted[o.Name] = uint32(there.Len())
			there.Append(o)
		}
	}
	return nil
}

// commonFolder is the folder, with a slash at its end, that all names begin with; empty: there is
// none.
func commonFolder(names []string) string {
	common := names[0]
	for _, name := range names[1:] {
		n := 0
		for n < len(common) && n < len(name) && common[n] == name[n] {
			n++
		}
		common = common[:n]
	}
	return common[:strings.LastIndexByte(common, '/')+1]
}

// stat finds the wanted objects one by one, and sets their places in there.
func stat(ctx context.Context, store objects.Store, wanted map[string]uint32, there *manifest.Manifest) error {
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	infos := make([]*objects.Info, len(names))
	var wg sync.WaitGroup
	for k := range asking {
		wg.Go(func() {
			for i := k; i < len(names) && ctx.Err() == nil; i += asking {
				info, err := store.Stat(ctx, names[i])
				switch {
				case err == nil:
					infos[i] = &info
				case !errors.Is(err, fs.ErrNotExist):
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, info := range infos {
		if info != nil {
			wanted[names[i]] = uint32(there.Len())
			there.Append(*info)
		}
	}
	return nil
}
