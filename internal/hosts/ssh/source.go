package ssh

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A Source is a folder of this machine whose contents are copied to hosts, except .git.
type Source struct {
	Dir string
	// Exclude are more paths in the folder, with slashes, that are not copied.
	Exclude []string
}

// patterns are rsync's for what is not copied. A path begins with / and matches itself alone.
func (s Source) patterns() []string {
	all := []string{"--exclude=.git"}
	for _, path := range s.Exclude {
		// Only with these characters a backslash is not itself.
		if strings.ContainsAny(path, "*?[") {
			path = wildcards.Replace(path)
		}
		all = append(all, "--exclude=/"+path)
	}
	return all
}

var wildcards = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// Measure counts the files that are copied, and their bytes.
func (s Source) Measure() (files int, bytes int64, err error) {
	err = fs.WalkDir(os.DirFS(s.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() != ".git" && !slices.Contains(s.Exclude, path):
		case d.IsDir():
			return fs.SkipDir
		default:
			return nil
		}
		if d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return files, bytes, err
}

// Size says in words what is copied.
func (s Source) Size() (string, error) {
	files, bytes, err := s.Measure()
	if err != nil {
		return "", fmt.Errorf("measure folder: %w", err)
	}
	return fmt.Sprintf("%s, %.1f MB", plural.Of(files, "file"), float64(bytes)/1e6), nil
}

// CleanExclude is the path of a file or folder to exclude, which may be absolute, as a Source of
// dir has it. It need not exist.
func CleanExclude(dir, path string) (string, error) {
	given := path
	if filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Rel(dir, path); err != nil {
			return "", err
		}
	}
	if path = filepath.Clean(path); path == "." || !filepath.IsLocal(path) {
		return "", fmt.Errorf("%q is not in the folder %s", given, dir)
	}
	return filepath.ToSlash(path), nil
}
