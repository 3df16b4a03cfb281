package recordio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// An index has where the records of a file begin.
type index struct {
	// offsets are in the order of the file, each once.
	offsets []int64
	// order has the place in offsets of each example; nil: the examples are in the order of the
	// file.
	order []uint32
	// end is the size of the file.
	end int64
}

// newIndex makes the index of examples at these offsets.
func newIndex(offsets []int64, end int64) index {
	if rising(offsets) {
		return index{offsets: offsets, end: end}
	}
	sorted := slices.Clone(offsets)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	order := make([]uint32, len(offsets))
	for i, off := range offsets {
		place, _ := slices.BinarySearch(sorted, off)
		order[i] = uint32(place)
	}
	return index{sorted, order, end}
}

func rising(offsets []int64) bool {
	for i, off := range offsets[min(1, len(offsets)):] {
		if off <= offsets[i] {
			return false
		}
	}
	return true
}

// len is the number of examples.
func (x *index) len() int {
	if x.order != nil {
		return len(x.order)
	}
	return len(x.offsets)
}

// extent is where the record of example i begins, and where the next one does.
func (x *index) extent(i int) (off, end int64) {
	if x.order != nil {
		i = int(x.order[i])
	}
	if i+1 == len(x.offsets) {
		return x.offsets[i], x.end
	}
	return x.offsets[i], x.offsets[i+1]
}

// parseIndex reads an .idx file of a .rec file of end bytes.
func parseIndex(r io.Reader, end int64) (index, error) {
	var offsets []int64
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		_, text, ok := strings.Cut(line, "\t")
		off, err := strconv.ParseInt(text, 10, 64)
		switch {
		case !ok || err != nil:
			return index{}, fmt.Errorf("line %d: got %.60q, want a key, a tab and the offset of a record", n, line)
		case off < 0 || off%4 != 0:
			return index{}, fmt.Errorf("line %d: got offset %d, want a multiple of 4", n, off)
		case off > end-headSize:
			return index{}, fmt.Errorf("line %d has a record at byte %d, but the .rec file ends at byte %d: "+
				"it was cut, or not copied to its end, or the .idx file is of another one", n, off, end)
		}
		offsets = append(offsets, off)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return index{}, fmt.Errorf("line %d has more than %d bytes, want a key, a tab and an offset", n+1, bufio.MaxScanTokenSize)
	} else if err != nil {
		return index{}, err
	}
	if len(offsets) == 0 {
		return index{}, errors.New("it has no line; remove it, and the index is made anew")
	}
	return newIndex(slices.Clip(offsets), end), nil
}

// fits is an error if an index is of another file: most of the records looked at do not begin where
// it says.
func (x *index) fits(ctx context.Context, store objects.Store, object objects.Info) error {
	bad := 0
	probes := slices.Compact([]int{0, len(x.offsets) / 2, len(x.offsets) - 1})
	for _, i := range probes {
		var b [headSize]byte
		if err := store.ReadRange(ctx, object, b[:], x.offsets[i]); err != nil {
			return err
		}
		if !beginsRecord(b[:]) {
			bad++
		}
	}
	if bad > len(probes)/2 {
		return fmt.Errorf("no record begins at %d of %d offsets: it is the index of another file; remove it, and it is made anew", bad, len(probes))
	}
	return nil
}

// write writes the index as an .idx file, with the examples' numbers as keys.
func (x *index) write(w io.Writer) error {
	var b []byte
	for i := range x.len() {
		off, _ := x.extent(i)
		b = strconv.AppendInt(b[:0], int64(i), 10)
		b = append(b, '\t')
		b = append(strconv.AppendInt(b, off, 10), '\n')
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// IndexName is the name of the .idx file of a .rec file.
func IndexName(rec string) string {
	return strings.TrimSuffix(rec, path.Ext(rec)) + ".idx"
}

// findIndex reads the index of a file, or makes and keeps it; notes says what it did that the user
// should know.
func findIndex(ctx context.Context, store objects.Store, object objects.Info, cfg Config) (x index, notes []string, err error) {
	place := sidecar.Place{Store: store, Object: object, CacheDir: cfg.CacheDir}
	name := IndexName(object.Name)
	if !cfg.Resync {
		if x, err := readIndex(ctx, store, object, name); !errors.Is(err, fs.ErrNotExist) {
			return x, nil, err
		}
		if f, err := place.OpenCached(name); err == nil {
			defer f.Close()
			x, err := parseIndex(f, object.Size)
			if err == nil {
				err = x.fits(ctx, store, object)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
			return x, nil, err
		}
	}
	var offsets []int64
	if err := scan(ctx, store, object, cfg.Resync, func(off int64) { offsets = append(offsets, off) }); err != nil {
		return x, nil, err
	}
	x = index{offsets: slices.Clip(offsets), end: object.Size}
	if cfg.Resync {
		return x, compare(ctx, store, object, name, x.len()), nil
	}
	if kept, err := place.Write(name, x.write); err == nil {
		notes = append(notes, fmt.Sprintf("%s has no .idx file: found its %d records in one pass, and wrote %s", object.Name, x.len(), kept))
	} else {
		notes = append(notes, fmt.Sprintf("%s has no .idx file: found its %d records in one pass, which the next run does again, since the index could not be kept: %v",
			object.Name, x.len(), err))
	}
	return x, notes, nil
}

// compare says how the .idx file that lies beside a file, if there is one, differs from the records
// that were found.
func compare(ctx context.Context, store objects.Store, object objects.Info, name string, found int) []string {
	x, err := readIndex(ctx, store, object, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return []string{err.Error()}
	case x.len() != found:
		return []string{fmt.Sprintf("%s has %s, and %s was found to have %d", name, plural.Of(x.len(), "record"), object.Name, found)}
	}
	return nil
}

// readIndex reads the .idx file that lies beside a file; the error is fs.ErrNotExist if there is
// none.
func readIndex(ctx context.Context, store objects.Store, object objects.Info, name string) (index, error) {
	info, err := store.Stat(ctx, name)
	if err != nil {
		return index{}, err
	}
	r := objects.NewReader(ctx, store, info)
	defer r.Close()
	x, err := parseIndex(r, object.Size)
	if err == nil {
		err = x.fits(ctx, store, object)
	}
	if err != nil {
		return index{}, fmt.Errorf("%s: %w", name, err)
	}
	return x, nil
}
