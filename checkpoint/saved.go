package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Files of a job's checkpoint, which package worker writes.
const (
	// ManifestFile is written last: a folder without it is not a complete checkpoint.
	ManifestFile = "complete.json"
	// StoreFile is what the servers hold.
	StoreFile = "store.safetensors"
	// RunFile lies beside the checkpoints' folders and names the run that they belong to.
	RunFile = "run.json"
)

// WorkerFile is the name of one worker's own file.
func WorkerFile(rank int) string { return fmt.Sprintf("worker-%d.safetensors", rank) }

// StepFolder is the name of the folder of a checkpoint after this many steps.
func StepFolder(steps uint64) string { return fmt.Sprintf("step-%08d", steps) }

// A Saved is the folder of one checkpoint of a job in a place, complete or not.
type Saved struct {
	// Steps is how many had been taken.
	Steps uint64
	// Files are names in the place.
	Files []string
}

// Name is the name in the place of a file of the checkpoint.
func (s *Saved) Name(file string) string { return path.Join(StepFolder(s.Steps), file) }

// Complete reports whether all of the checkpoint was written.
func (s *Saved) Complete() bool { return slices.Contains(s.Files, s.Name(ManifestFile)) }

// ListSaved returns the checkpoints in a place, complete or not, by increasing step.
func ListSaved(ctx context.Context, place Place) (found []Saved, err error) {
	names, err := place.List(ctx, "step-")
	if err != nil {
		return nil, fmt.Errorf("checkpoint: look for checkpoints: %w", err)
	}
	for _, name := range names {
		dir, _, _ := strings.Cut(name, "/")
		steps, ok := stepOf(dir)
		if !ok || dir == name {
			continue
		}
		i := slices.IndexFunc(found, func(s Saved) bool { return s.Steps == steps })
		if i < 0 {
			i, found = len(found), append(found, Saved{Steps: steps})
		}
		found[i].Files = append(found[i].Files, name)
	}
	slices.SortFunc(found, func(a, b Saved) int { return cmp.Compare(a.Steps, b.Steps) })
	return found, nil
}

// stepOf is the inverse of StepFolder.
func stepOf(folder string) (steps uint64, ok bool) {
	number, _ := strings.CutPrefix(folder, "step-")
	steps, err := strconv.ParseUint(number, 10, 64)
	return steps, err == nil && folder == StepFolder(steps)
}

// A Manifest describes the checkpoint's files, in complete.json; its writer adds what it needs to
// resume. An older version wrote Manifests without checksums.
type Manifest struct {
	Files []FileSum `json:"files,omitempty"`
	// Checksum is the CRC-32C of the manifest's text with zeros in its place.
	Checksum string `json:"manifest_crc32c,omitempty"`
}

// A FileSum identifies a file in a manifest.
type FileSum struct {
	// Name is that in the checkpoint's folder.
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// CRC32C is of the file's header, which has those of the data.
	CRC32C string `json:"crc32c"`
}

// Sum returns the file's FileSum.
func (f *File) Sum(name string) FileSum { return FileSum{name, f.size, sumText(f.sum)} }

// Sealed is a Manifest to write: WriteManifest puts in its checksum.
func Sealed(files []FileSum) Manifest { return Manifest{files, sumPlaceholder} }

var manifestSum = []byte(`"manifest_crc32c": "`)

// WriteManifest completes a checkpoint: m is a struct with a Sealed Manifest embedded.
func WriteManifest(ctx context.Context, place Place, steps uint64, m any) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		text, err = sealed(append(text, '\n'), manifestSum)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: write manifest: %w", err)
	}
	return place.Write(ctx, path.Join(StepFolder(steps), ManifestFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// manifestLimit is the most bytes of a manifest; none is nearly as long.
const manifestLimit = 16 << 20

// ReadManifest reads complete.json into m, a pointer to a struct with a Manifest embedded, and
// compares it with its checksum. Text that is damaged is ErrDamaged.
func (s *Saved) ReadManifest(ctx context.Context, place Place, m any) (Manifest, error) {
	text, err := readText(ctx, place, s.Name(ManifestFile), manifestLimit)
	if err != nil {
		return Manifest{}, fmt.Errorf("checkpoint: read %s: %w", s.Name(ManifestFile), err)
	}
	own, err := parseManifest(text, m)
	if err != nil {
		return Manifest{}, fmt.Errorf("checkpoint: read %s: %w", s.Name(ManifestFile), damaged("%w", err))
	}
	return own, nil
}

// parseManifest checks a manifest before any of it is used, and decodes it twice: into what this
// package knows of it, and into m, what the caller has put in.
func parseManifest(text []byte, m any) (own Manifest, err error) {
	if err := json.Unmarshal(text, &own); err != nil {
		return own, err
	}
	switch noted, got, err := unsealed(text, manifestSum); {
	// Older versions wrote neither.
	case own.Checksum == "" && len(own.Files) == 0:
	case err != nil:
		return own, err
	case noted != got:
		return own, fmt.Errorf("got the checksum %08x, want %08x as recorded in it", got, noted)
	}
	for _, f := range own.Files {
		if f.Name == "" || f.Name != path.Base(f.Name) {
			return own, fmt.Errorf("got the name %q of a file, want one without slashes", f.Name)
		}
	}
	return own, json.Unmarshal(text, m)
}

// FileSums opens the checkpoint's files in the place and returns their FileSums: the store's file
// and those of this many workers. A worker's file may be missing: the worker has a folder of its
// own, or was lost.
func (s *Saved) FileSums(ctx context.Context, place Place, workers int) ([]FileSum, error) {
	names := []string{StoreFile}
	for rank := range workers {
		names = append(names, WorkerFile(rank))
	}
	sums := make([]FileSum, len(names))
	err := each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		f, err := OpenIn(ctx, place, s.Name(names[i]))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		sums[i] = f.Sum(names[i])
		return f.Close()
	})
	return slices.DeleteFunc(sums, func(s FileSum) bool { return s.Name == "" }), err
}

// Verify reads all files that the manifest names and compares them with it. A file that is missing,
// is another one, or does not have its checksums is ErrDamaged; any other error is the place's.
// Without checksums it can only check the files' headers.
func (s *Saved) Verify(ctx context.Context, place Place, m Manifest) error {
	if m.Checksum == "" {
		return each(ctx, len(s.Files), func(ctx context.Context, i int) error {
			if path.Ext(s.Files[i]) != path.Ext(StoreFile) {
				return nil
			}
			f, err := OpenIn(ctx, place, s.Files[i])
			if err != nil {
				return err
			}
			return f.Close()
		})
	}
	return each(ctx, len(m.Files), func(ctx context.Context, i int) (err error) {
		want := m.Files[i]
		f, err := OpenIn(ctx, place, s.Name(want.Name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checkpoint: %s: %w", s.Name(want.Name), damaged("it is missing: %w", err))
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if got := f.Sum(want.Name); got != want {
			return fmt.Errorf("checkpoint: %s: %w", s.Name(want.Name),
				damaged("got %d bytes with the header's checksum %s, want %d with %s as %s says: it is another file", got.Bytes, got.CRC32C, want.Bytes, want.CRC32C, ManifestFile))
		}
		return f.Verify()
	})
}

// atOnce is how many files of a checkpoint are opened together.
const atOnce = 16

// each calls do for 0 to n-1, some together, and returns the first error.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
