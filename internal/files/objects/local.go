package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A folder is a Store of the files in and below a local folder.
//
// List follows links to files and folders; a link to a folder above it is left out, since it would
// never end. Hidden files are listed like others. A link that leads nowhere is an error unless its
// name begins with a dot, as those of editors do. What is no file (a socket, a pipe, a device) is
// left out. An object's version is the file's time of modification and size.
type folder struct {
	root  string // absolute
	files *openFiles
}

func openFolder(path string) (Store, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("objects: open %s: %w", path, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("objects: open %s: %w", root, cause(err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("objects: open %s: got a file, want a folder", root)
	}
	return &folder{root: root, files: newOpenFiles(maxOpenFiles())}, nil
}

// cause takes the operation and the path off an error of package os: ours have them. A name below
// a file's is one that does not exist.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

func (d *folder) URL() string { return d.root }

// path is where an object lies. Names may come out of files of others, such as an index of
// shards: one that leads out of the folder is refused.
func (d *folder) path(name string) (string, error) {
	file := filepath.FromSlash(name)
	if !filepath.IsLocal(file) || name != filepath.ToSlash(filepath.Clean(file)) {
		return "", fmt.Errorf("got name %q, want one of a file in the folder, such as a/b.jpg", name)
	}
	return filepath.Join(d.root, file), nil
}

func (d *folder) Stat(_ context.Context, name string) (Info, error) {
	path, err := d.path(name)
	if err != nil {
		return Info{}, fmt.Errorf("objects: stat an object in %s: %w", d.root, err)
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notAFile(info)
	}
	if err != nil {
		return Info{}, fmt.Errorf("objects: stat %s: %w", path, cause(err))
	}
	return Info{Name: name, Size: info.Size(), Version: version(info)}, nil
}

func notAFile(info fs.FileInfo) error {
	kind := info.Mode().Type().String()
	if info.IsDir() {
		kind = "a folder"
	}
	return fmt.Errorf("%w: it is %s, not a file", fs.ErrNotExist, kind)
}

// version tells the contents of a file apart.
func version(info fs.FileInfo) string {
	return strconv.FormatInt(info.ModTime().UnixNano(), 10) + "-" + strconv.FormatInt(info.Size(), 10)
}

func (d *folder) ReadRange(ctx context.Context, object Info, p []byte, off int64) error {
	at := func(err error) error {
		return fmt.Errorf("objects: read %s in %s: %d bytes from byte %d of %d: %w",
			object.Name, d.root, len(p), off, object.Size, err)
	}
	path, err := d.path(object.Name)
	if err != nil {
		return at(err)
	}
	if err := CheckRange(object, p, off); err != nil {
		return at(err)
	}
	for again := false; ; again = true {
		err := d.read(ctx, path, object, p, off)
		if err == nil {
			return nil
		}
		// The handle may be of an earlier version, or of a network file system and stale:
		// the file is opened anew once.
		if again || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return at(err)
		}
	}
}

func (d *folder) read(ctx context.Context, path string, object Info, p []byte, off int64) error {
	f, done, err := d.files.open(ctx, path)
	if err != nil {
		return cause(err)
	}
	n, err := f.ReadAt(p, off)
	info, statErr := f.Stat()
	good := statErr == nil && (n == len(p) || errors.Is(err, io.EOF))
	defer func() { done(good) }()
	switch {
	case statErr == nil && !info.Mode().IsRegular():
		good = false
		return notAFile(info)
	case statErr == nil && object.Version != "" && version(info) != object.Version:
		// The name may belong to another file by now.
		good = false
		return fmt.Errorf("%w: it was %s, and is %s (time of modification and size)", ErrChanged, object.Version, version(info))
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return cause(err)
}

// CheckRange is the error of a range that is not in an object, for ReadRange of a Store: a negative
// offset, or io.ErrUnexpectedEOF behind the end.
func CheckRange(object Info, p []byte, off int64) error {
	switch {
	case off < 0:
		return errors.New("got a negative offset")
	case int64(len(p)) > object.Size-off:
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (d *folder) Close() error { return d.files.close() }

func (d *folder) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		// The walk begins in the folder that the prefix names in full.
		dir, rest := "", prefix
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir, rest = prefix[:i+1], prefix[i+1:]
		}
		fail := func(err error) {
			yield(Info{}, fmt.Errorf("objects: list %q in %s: %w", prefix, d.root, err))
		}
		path := d.root
		if dir != "" {
			var err error
			if path, err = d.path(strings.TrimSuffix(dir, "/")); err != nil {
				return // No object has such a name.
			}
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != "", err == nil && !info.IsDir():
			return
		case err != nil:
			fail(err)
			return
		}
		w := walk{ctx: ctx, yield: yield}
		if err := w.folder(path, dir, rest, []fs.FileInfo{info}); err != nil {
			fail(err)
		}
	}
}

// A walk yields the files below a folder.
type walk struct {
	ctx   context.Context
	yield func(Info, error) bool

	// ended says that the caller wants no more.
	ended bool
}

// An entry is a name in a folder; that of a folder ends with a slash, so that sorting gives the
// byte order of full names: "a-b" comes before what is in "a/".
type entry struct {
	name string

	// info describes a link's target; nil: nobody has asked for it yet.
	info fs.FileInfo
}

// folder yields what is in one folder, whose objects' names begin with dir, and then with rest.
// Above are the folders on the way, itself last.
func (w *walk) folder(path, dir, rest string, above []fs.FileInfo) error {
	entries, err := w.read(path, rest)
	if err != nil {
		return err
	}
	for i, e := range entries {
		// The names of a large folder are let go on the way.
		entries[i] = entry{}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		name, isFolder := strings.CutSuffix(e.name, "/")
		file := filepath.Join(path, name)
		if e.info == nil {
			if e.info, err = os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
				continue // It was removed meanwhile.
			} else if err != nil {
				return err
			}
		}
		switch {
		case isFolder:
			if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, e.info) }) {
				continue
			}
			if err := w.folder(file, dir+e.name, "", append(slices.Clip(above), e.info)); err != nil {
				return err
			}
		case e.info.Mode().IsRegular():
			w.ended = !w.yield(Info{Name: dir + name, Size: e.info.Size(), Version: version(e.info)}, nil)
		}
		if w.ended {
			return nil
		}
	}
	return nil
}

// read returns the entries of a folder whose names begin with a prefix, in order.
func (w *walk) read(path, prefix string) (entries []entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		some, err := f.ReadDir(1024)
		for _, e := range some {
			if !strings.HasPrefix(e.Name(), prefix) {
				continue
			}
			switch mode := e.Type(); {
			case mode.IsDir():
				entries = append(entries, entry{name: e.Name() + "/"})
			case mode&fs.ModeSymlink != 0:
				target, err := os.Stat(filepath.Join(path, e.Name()))
				switch {
				case err != nil && strings.HasPrefix(e.Name(), "."):
				case err != nil:
					return nil, fmt.Errorf("the link %s leads nowhere: %w", filepath.Join(path, e.Name()), cause(err))
				case target.IsDir():
					entries = append(entries, entry{e.Name() + "/", target})
				default:
					entries = append(entries, entry{e.Name(), target})
				}
			case mode.IsRegular() || mode&fs.ModeIrregular != 0:
				entries = append(entries, entry{name: e.Name()})
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries, nil
}

// Folders returns the names of the folders directly in the store's, sorted: List does not show one
// that has no files.
func (d *folder) Folders(ctx context.Context) ([]string, error) {
	w := walk{ctx: ctx}
	entries, err := w.read(d.root, "")
	if err != nil {
		return nil, fmt.Errorf("objects: list the folders in %s: %w", d.root, err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.name, "/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
