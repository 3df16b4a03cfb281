package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	encoded "github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/folder"
	"github.com/paragon-train/paragon/data/internal/source/list"
	"github.com/paragon-train/paragon/data/internal/source/mds"
	"github.com/paragon-train/paragon/data/internal/source/recordio"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/data/internal/source/tarshards"
	"github.com/paragon-train/paragon/data/internal/source/tfrecord"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// OpenOptions say how Open and OpenImages read images.
type OpenOptions struct {
	// Format is the format of the data, one of ImageFormats. Empty: the names of its files
	// tell.
	Format string
	// Transforms are applied to each image in turn. They must make all images of one size.
	Transforms []transform.Transform
	// Channels is 3 for colour and 1 for grey; images are converted. Zero means 3.
	Channels int
	// Classes are the names of the classes by label, such as those of the training set where
	// its test set is opened: a folder's classes get their labels from here, and one that is
	// not here is an error. Nil: the data's own.
	Classes []string
	// Root is where the paths in an .lst file begin: a folder or prefix by its path or URL.
	// Empty: the folder of the list.
	Root string
	// AllowEmptyClasses takes classes without an image, as a small test set may have.
	AllowEmptyClasses bool
	// LabelWidth is how many numbers the labels of an example have, for images with several
	// labels or with a number that is no class. Zero: each has one class.
	LabelWidth int
	// FirstLabel is the number of the first class, which becomes label 0: 1 for ImageNet as
	// TensorFlow's scripts pack it. With it labels from 0 on that are below it are none.
	FirstLabel int
	// ImageColumn and LabelColumn are the names of the columns of MDS and Parquet, keys of
	// TFRecord, or extensions of members of tar shards, that have them. Empty: those that
	// mostly do.
	ImageColumn, LabelColumn string
	// SameKeys allows samples of different tar shards to have the same key, as shards have that
	// each number their samples anew. Otherwise it is an error, since a shard may be there
	// twice.
	SameKeys bool
	// Orient turns images as their EXIF data says. Torchvision, TensorFlow and Go do not, which
	// is the default.
	Orient bool
	// MaxPixels is the largest width times height of an image, before the transforms; a larger
	// one is damaged, which saves memory. Zero means 89,478,485, as Pillow has it.
	MaxPixels int
	// CacheDir is a local folder that keeps what was read over a network for the next epoch,
	// and the next run, which also finds the list of objects there: for a day, so that many are
	// listed once. Empty: nothing is kept.
	CacheDir string
	// CacheBytes bounds the cache. Zero means 64 GiB. A cache that is smaller than the data
	// does harm in a permutation of all examples, since each one fetches a block of 4 MiB:
	// OpenImages logs a warning.
	CacheBytes int64
	// AheadBytes bounds what is read ahead over a network. Zero means 256 MiB.
	AheadBytes int64
	// Resync finds the records of .rec files without their .idx files, and goes on behind
	// damage, which is an example that cannot be read: for tools that check or mend. Examples
	// are in the order of the file, and damage changes their numbers.
	Resync bool
	// Logger hears what is notable about the data, such as hidden folders that are skipped.
	// Nil: nobody does; of CacheDir slog.Default does.
	Logger *slog.Logger
}

func (c *OpenOptions) validate() error {
	switch {
	case c.Format != "" && imageFormat(c.Format) == nil:
		return fmt.Errorf("data: open: Format: got %q, want one of %q", c.Format, ImageFormats())
	case c.Channels != 0 && c.Channels != 1 && c.Channels != 3:
		return fmt.Errorf("data: open: Channels: got %d, want 3 or 1", c.Channels)
	case c.FirstLabel < 0 || c.FirstLabel > 0 && c.LabelWidth > 0:
		return fmt.Errorf("data: open: FirstLabel: got %d with LabelWidth %d, want at least 0, and 0 with labels that are no classes", c.FirstLabel, c.LabelWidth)
	case c.LabelWidth < 0 || c.MaxPixels < 0 || c.CacheBytes < 0 || c.AheadBytes < 0:
		return fmt.Errorf("data: open: LabelWidth, MaxPixels, CacheBytes and AheadBytes: got %d, %d, %d and %d, want at least 0", c.LabelWidth, c.MaxPixels, c.CacheBytes, c.AheadBytes)
	case c.CacheBytes > 0 && c.CacheDir == "":
		return fmt.Errorf("data: open: CacheBytes: got %d without CacheDir, want a folder for the cache", c.CacheBytes)
	case slices.Contains(c.Transforms, nil):
		return errors.New("data: open: Transforms: got nil among them, want none")
	}
	sorted := slices.Sorted(slices.Values(c.Classes))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return fmt.Errorf("data: open: Classes: got %q twice, want each name once", sorted[i])
		}
	}
	return nil
}

func (c *OpenOptions) setDefaults() {
	if c.Channels == 0 {
		c.Channels = 3
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 64 << 30
	}
	if c.AheadBytes == 0 {
		c.AheadBytes = 256 << 20
	}
}

// Open opens the images of a URL as a Dataset: what OpenImages does, for programs that need no more
// of them than a Loader or a feed takes. It is an io.Closer, too.
func Open(ctx context.Context, url string, opts OpenOptions) (Dataset, error) {
	m, err := OpenImages(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// OpenImages opens images where they lie: at a path, or at a URL of a scheme that the program knows
// (https; and s3, gs and azblob in one that imports checkpoint/bucket). It names a folder or prefix
// with data of one format, or the file of one, as train.lst, train.rec, shards-{000..099}.tar or
// index.json. The order of the examples is the data's: its files in order, and the place in them.
//
// An error of data that is not there has fs.ErrNotExist in its chain. Listing the files of a folder
// of classes takes its time where there are many. Images are read when they are asked for.
func OpenImages(ctx context.Context, url string, cfg OpenOptions) (*Images, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	at, err := locate(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("data: open: %w", err)
	}
	store, ahead, err := stack(at.store, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data: open: %w", err), at.store.Close())
	}
	at.store = store
	m, err := openAt(ctx, at, ahead, cfg)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, nil
}

// openAt opens the images of a place. On success they own the store.
func openAt(ctx context.Context, at place, ahead announcer, cfg OpenOptions) (_ *Images, err error) {
	f := imageFormat(cfg.Format)
	if f == nil {
		if f, err = at.detect(ctx); err != nil {
			return nil, fmt.Errorf("data: open: %w", err)
		}
	}
	src, err := f.open(ctx, at, cfg)
	if err != nil {
		return nil, err
	}
	m := &Images{source: src, url: at.String(), cfg: cfg, ahead: ahead}
	m.close = func() error { return errors.Join(src.Close(), at.store.Close()) }
	if m.Len() == 0 {
		err = fmt.Errorf("data: %s: got no images, want at least one", m.url)
	}
	if err == nil {
		err = m.relabel()
	}
	if err == nil {
		err = m.findShape(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	m.warn(cfg.Logger)
	m.warnOfCache()
	return m, nil
}

// stack puts what caches and reads ahead over a store of the network. What it returns closes the
// store, too. Files of this machine are read as they are: the system caches them.
func stack(store objects.Store, cfg OpenOptions) (objects.Store, announcer, error) {
	if sidecar.Local(store) {
		return store, nil, nil
	}
	if cfg.CacheDir != "" {
		// Lists and indices of data lie beside the blocks.
		lists, err := objects.NewLists(store, objects.ListsConfig{Dir: cfg.CacheDir, Logger: cfg.Logger})
		if err != nil {
			return nil, nil, err
		}
		cache, err := objects.NewCache(lists, objects.CacheConfig{Dir: filepath.Join(cfg.CacheDir, "blocks"), Bytes: cfg.CacheBytes, Logger: cfg.Logger})
		if err != nil {
			return nil, nil, err
		}
		store = cache
	}
	ahead := objects.NewAhead(store, objects.AheadConfig{Bytes: cfg.AheadBytes})
	return ahead, ahead, nil
}

// A place is where data lies.
type place struct {
	store objects.Store
	// names are the objects that were named, which may have patterns as in
	// shards-{000..099}.tar; nil: all of the store.
	names []string
}

// String is the address of the place, for messages.
func (p place) String() string {
	if len(p.names) == 0 {
		return p.store.URL()
	}
	return strings.TrimSuffix(p.store.URL(), "/") + "/" + strings.Join(p.names, "::")
}

// locate opens the store of a URL: the folder that it names, or that of the file that it names.
func locate(ctx context.Context, url string) (place, error) {
	folder, name := splitURL(url)
	if name == "" {
		store, err := objects.Open(ctx, url)
		return place{store: store}, err
	}
	store, err := objects.Open(ctx, folder)
	return place{store, strings.Split(name, "::")}, err
}

// splitURL splits a URL into the folder and the names of files in it, if its last part ends as
// files of data do; else name is empty.
func splitURL(url string) (folder, name string) {
	address, query, _ := strings.Cut(url, "?")
	if !strings.Contains(url, "://") {
		address, query = url, ""
	}
	// Of a set joined by "::" the first one says where all lie.
	first, _, _ := strings.Cut(address, "::")
	cut := strings.LastIndexByte(first, '/')
	name = address[cut+1:]
	if imageFormatOfFile(name) == nil {
		return url, ""
	}
	folder = address[:cut+1]
	switch {
	case folder == "":
		folder = "."
	case query != "":
		folder += "?" + query
	}
	return folder, name
}

// An imagesFormat is a way in which images lie in files.
type imagesFormat struct {
	name string
	// is reports whether a file is of the format by its name, which may be a pattern.
	is func(name string) bool
	// open opens the data of a place.
	open func(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error)
}

// imageFormats are those of this program, and those that packages registered as they were imported.
// A format is a line here.
func imageFormats() []imagesFormat {
	list := []imagesFormat{
		{"folder", ending(), openFolder},
		{"list", ending(".lst"), openList},
		{"recordio", ending(".rec"), openRecordIO},
		{"tar", ending(".tar"), openTar},
		{"mds", isMDS, openMDS},
		{"tfrecord", isTFRecord, openTFRecord},
	}
	for _, r := range encoded.Registered() {
		list = append(list, imagesFormat{r.Name, ending(r.Suffixes...), func(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
			files, err := at.files(ctx, ending(r.Suffixes...))
			if err != nil {
				return nil, err
			}
			return r.Open(ctx, at.store, files, encoded.Columns{Image: cfg.ImageColumn, Label: cfg.LabelColumn})
		}})
	}
	return list
}

func openFolder(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	return folder.Open(ctx, at.store, folder.Config{Classes: cfg.Classes, AllowEmpty: cfg.AllowEmptyClasses})
}

func openRecordIO(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	files, err := at.files(ctx, ending(".rec"))
	if err != nil {
		return nil, err
	}
	if len(at.names) == 0 && len(files) > 1 {
		return nil, fmt.Errorf("data: open: %s has %d .rec files, such as %s and %s; name the one, or all that belong together: %s::%s", at, len(files), files[0].Name, files[1].Name, files[0].Name, files[1].Name)
	}
	classes, err := at.classes(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return recordio.Open(ctx, at.store, recordio.Config{Files: namesOf(files), Classes: classes, CacheDir: cfg.CacheDir, Resync: cfg.Resync})
}

// classes are the names of the classes that lie beside files whose format has none, or else those
// of the configuration.
func (p place) classes(ctx context.Context, cfg OpenOptions) ([]string, error) {
	names, err := classesBeside(ctx, p.store)
	if names == nil {
		names = cfg.Classes
	}
	return names, err
}

func openList(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	files, err := at.files(ctx, ending(".lst"))
	if err != nil {
		return nil, err
	}
	if len(files) > 1 {
		return nil, fmt.Errorf("data: open: %s has %d .lst files, such as %s and %s; name the one", at, len(files), files[0].Name, files[1].Name)
	}
	lists := list.Config{File: files[0].Name, Classes: cfg.Classes}
	if cfg.Root != "" {
		store, err := objects.Open(ctx, cfg.Root)
		if err != nil {
			return nil, fmt.Errorf("data: open: Root: %w", err)
		}
		if lists.Images, _, err = stack(store, cfg); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	src, err := list.Open(ctx, at.store, lists)
	if err != nil && lists.Images != nil {
		err = errors.Join(err, lists.Images.Close())
	}
	if err != nil {
		return nil, err
	}
	return src, nil
}

func openTar(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	classes, err := at.classes(ctx, cfg)
	if err != nil {
		return nil, err
	}
	src, err := tarshards.Open(ctx, at.store, tarshards.Config{Shards: strings.Join(at.names, "::"), Image: cfg.ImageColumn, Label: cfg.LabelColumn, SameKeys: cfg.SameKeys, Classes: classes, CacheDir: cfg.CacheDir})
	if err != nil {
		return nil, err
	}
	return src, nil
}

func isMDS(name string) bool { return name == mds.IndexName }

func openMDS(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	src, err := mds.Open(ctx, at.store, mds.Config{Image: cfg.ImageColumn, Label: cfg.LabelColumn, Classes: cfg.Classes})
	if err != nil {
		return nil, err
	}
	return src, nil
}

// isTFRecord takes the first name of a pattern.
func isTFRecord(name string) bool {
	return tfrecord.IsFile(strings.ReplaceAll(firstOfBraces.ReplaceAllString(name, "$1"), "*", "00000"))
}

// firstOfBraces are the braces of a pattern, such as {00000..00099} or {train,val}.
var firstOfBraces = regexp.MustCompile(`\{([^{},.]*)[^{}]*\}`)

func openTFRecord(ctx context.Context, at place, cfg OpenOptions) (encoded.Source, error) {
	src, err := tfrecord.Open(ctx, at.store, tfrecord.Config{Shards: strings.Join(at.names, "::"), Image: cfg.ImageColumn, Label: cfg.LabelColumn, Classes: cfg.Classes, CacheDir: cfg.CacheDir})
	if err != nil {
		return nil, err
	}
	return src, nil
}

// ending reports whether a name ends so, in any case.
func ending(suffixes ...string) func(name string) bool {
	return func(name string) bool {
		name = strings.ToLower(name)
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	}
}

// ImageFormats are the formats that Open knows, by name.
func ImageFormats() []string {
	var names []string
	for _, f := range imageFormats() {
		names = append(names, f.name)
	}
	return names
}

// imageFormat finds a format by its name; nil: there is none.
func imageFormat(name string) *imagesFormat {
	return findImageFormat(func(f *imagesFormat) bool { return f.name == name })
}

// imageFormatOfFile finds the format of a file; nil: its name does not tell one.
func imageFormatOfFile(name string) *imagesFormat {
	return findImageFormat(func(f *imagesFormat) bool { return f.is(path.Base(name)) })
}

func findImageFormat(is func(f *imagesFormat) bool) *imagesFormat {
	for _, f := range imageFormats() {
		if is(&f) {
			return &f
		}
	}
	return nil
}

// files are the objects that were named, or all at the top of the place that have such names.
func (p place) files(ctx context.Context, is func(name string) bool) (list []objects.Info, err error) {
	for _, name := range p.names {
		o, err := p.store.Stat(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("data: open: %w", err)
		}
		list = append(list, o)
	}
	if len(p.names) > 0 {
		return list, nil
	}
	for o, err := range p.store.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("data: open: %w", err)
		}
		if !strings.Contains(o.Name, "/") && !strings.HasPrefix(o.Name, ".") && is(o.Name) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("data: open: %s has no file of the format", p)
	}
	return list, nil
}

func namesOf(files []objects.Info) (names []string) {
	for _, o := range files {
		names = append(names, o.Name)
	}
	return names
}

// mostListed is how many objects of a folder tell its format.
const mostListed = 2000

// detect finds the format of a place out by the names of its files.
func (p place) detect(ctx context.Context) (*imagesFormat, error) {
	if len(p.names) > 0 {
		return imageFormatOfFile(p.names[0]), nil
	}
	var found []*imagesFormat
	others, below, n := "", false, 0
	for o, err := range p.store.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if n++; n > mostListed {
			break
		}
		if strings.HasPrefix(path.Base(o.Name), ".") {
			continue
		}
		if strings.Contains(o.Name, "/") {
			below = true
			continue
		}
		if f := imageFormatOfFile(o.Name); f == nil {
			others = o.Name
		} else if !slices.ContainsFunc(found, func(other *imagesFormat) bool { return other.name == f.name }) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var names []string
		for _, f := range found {
			names = append(names, f.name)
		}
		return nil, fmt.Errorf("%s has files of several formats, %q: want the name of one file, or OpenOptions.Format", p, names)
	case below:
		if f := imageFormat("folder"); f != nil {
			return f, nil
		}
	case n == 0:
		return nil, fmt.Errorf("%s is empty: %w", p, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("%s has files such as %q, whose format is not known; want one of %q, or a folder of each class with images in it", p, others, ImageFormats())
}
