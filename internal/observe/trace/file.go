package trace

import (
	"compress/gzip"
	"io"
	"path/filepath"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// WriteFile writes the timeline into a file as WriteChrome does, compressed if its name ends with
// .gz. Whoever reads the file finds all of it or what was there before.
func (t *Timeline) WriteFile(fsys vfs.FS, path string) (s Summary, err error) {
	err = vfs.WriteFile(fsys, path, func(w io.Writer) (err error) {
		if filepath.Ext(path) != ".gz" {
			s, err = t.WriteChrome(w)
			return err
		}
		z := gzip.NewWriter(w)
		if s, err = t.WriteChrome(z); err != nil {
			return err
		}
		return z.Close()
	})
	return s, err
}
