package folder

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source/manifest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A walk sorts a listing into directories.
type walk struct {
	extensions []string
	// classes has the names of the directories below the root that are not hidden, and how many
	// images each has.
	classes map[string]int
	dirs    map[string]*directory
	// last is the directory of the image before, in which the next one lies as a rule.
	last *directory
	// unsorted has the directories whose files were not listed in the order of their names, as
	// some buckets do.
	unsorted map[*directory]bool

	// hiddenNames has the hidden directories that hiddenDirs counts.
	hiddenNames map[string]bool

	hiddenDirs, hiddenFiles, loose, others found
}

// A found counts objects of a kind and keeps the names of the first ones.
type found struct {
	count int
	names []string
}

func (f *found) add(name string) {
	f.count++
	if len(f.names) < 3 {
		f.names = append(f.names, name)
	}
}

func (f *found) String() string {
	text := strings.Join(f.names, ", ")
	if f.count > len(f.names) {
		text += ", ..."
	}
	return text
}

func newWalk(extensions []string) *walk {
	if len(extensions) == 0 {
		extensions = Extensions
	}
	w := &walk{classes: map[string]int{}, dirs: map[string]*directory{}, unsorted: map[*directory]bool{}, hiddenNames: map[string]bool{}}
	for _, e := range extensions {
		w.extensions = append(w.extensions, strings.ToLower(e))
	}
	return w
}

// add takes one object of the listing.
func (w *walk) add(o objects.Info) {
	class, _, below := strings.Cut(o.Name, "/")
	if !below {
		if hidden(o.Name) {
			w.hiddenFiles.add(o.Name)
		} else {
			w.loose.add(o.Name)
		}
		return
	}
	dir, base := split(o.Name)
	for at := 0; at < len(dir); {
		name, _, _ := strings.Cut(dir[at:], "/")
		if hidden(name) {
			w.hiddenDir(dir[:at+len(name)])
			return
		}
		at += len(name) + 1
	}
	w.class(class)
	switch {
	case base == "":
		// Some buckets have an object of no bytes for a directory.
	case hidden(base):
		w.hiddenFiles.add(o.Name)
	case !slices.Contains(w.extensions, strings.ToLower(path.Ext(base))):
		w.others.add(o.Name)
	default:
		w.classes[class]++
		w.image(dir, base, o)
	}
}

// class notes that there is a directory of that name below the root.
func (w *walk) class(name string) {
	if hidden(name) {
		w.hiddenDir(name)
	} else if _, ok := w.classes[name]; !ok {
		w.classes[strings.Clone(name)] = 0
	}
}

func (w *walk) hiddenDir(name string) {
	if !w.hiddenNames[name] {
		name = strings.Clone(name)
		w.hiddenNames[name] = true
		w.hiddenDirs.add(name)
	}
}

func (w *walk) image(dir, base string, o objects.Info) {
	d := w.last
	if d == nil || d.path != dir {
		if d = w.dirs[dir]; d == nil {
			d = &directory{path: strings.Clone(dir)}
			w.dirs[d.path] = d
		}
		w.last = d
	}
	if n := d.files.Len(); n > 0 && string(d.files.Name(n-1)) >= base {
		w.unsorted[d] = true
	}
	o.Name = base
	d.files.Append(o)
}

// check is an error if the listing is of no image folder.
func (w *walk) check() error {
	if len(w.classes) > 0 {
		return nil
	}
	var has []string
	if w.loose.count > 0 {
		has = append(has, fmt.Sprintf("%d files (%s)", w.loose.count, &w.loose))
	}
	if w.hiddenDirs.count > 0 {
		has = append(has, fmt.Sprintf("hidden directories, which are no classes (%s)", &w.hiddenDirs))
	}
	if len(has) == 0 {
		has = append(has, "nothing")
	}
	err := fmt.Errorf("%w; it has %s", errNoClasses, strings.Join(has, " and "))
	for _, name := range w.loose.names {
		switch ext := strings.ToLower(path.Ext(name)); ext {
		case ".rec", ".lst", ".tar", ".mds", ".parquet":
			return fmt.Errorf("%w; to read %s give its own address", err, name)
		}
	}
	return err
}

// classNames are the classes by label.
func (w *walk) classNames(cfg Config) ([]string, error) {
	names := slices.Sorted(maps.Keys(w.classes))
	if len(cfg.Classes) > 0 {
		known := make(map[string]bool, len(cfg.Classes))
		for _, name := range cfg.Classes {
			if known[name] {
				return nil, fmt.Errorf("the list of classes has %q twice", name)
			}
			known[name] = true
		}
		var unknown found
		for _, name := range names {
			if !known[name] {
				unknown.add(name)
			}
		}
		if unknown.count > 0 {
			return nil, fmt.Errorf("%d of its %d class directories are not among the %d classes of the training set: %s; "+
				"remove them, or train with them", unknown.count, len(names), len(cfg.Classes), &unknown)
		}
		names = slices.Clone(cfg.Classes)
	}
	var missing, empty found
	for _, name := range names {
		if images, ok := w.classes[name]; !ok {
			missing.add(name)
		} else if images == 0 {
			empty.add(name)
		}
	}
	if cfg.AllowEmpty {
		return names, nil
	}
	if missing.count > 0 {
		return nil, fmt.Errorf("it has no directory for %d of the %d classes of the training set: %s; "+
			"give the folder that has them, or allow empty classes", missing.count, len(names), &missing)
	}
	if empty.count > 0 {
		return nil, fmt.Errorf("%d of its %d class directories have no image (%s): %s; remove them, or allow empty classes",
			empty.count, len(names), strings.Join(w.extensions, " "), &empty)
	}
	return names, nil
}

// sorted are the directories in the order of their examples.
func (w *walk) sorted(classes []string) []directory {
	labels := make(map[string]int, len(classes))
	for i, name := range classes {
		labels[name] = i
	}
	dirs := make([]directory, 0, len(w.dirs))
	for _, d := range w.dirs {
		if w.unsorted[d] {
			d.sort()
		}
		d.files.Trim()
		class, _, _ := strings.Cut(d.path, "/")
		d.label = labels[class]
		dirs = append(dirs, *d)
	}
	slices.SortFunc(dirs, func(a, b directory) int {
		classA, _, _ := strings.Cut(a.path, "/")
		classB, _, _ := strings.Cut(b.path, "/")
		if c := strings.Compare(classA, classB); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	return dirs
}

// sort sorts the files by name.
func (d *directory) sort() {
	all := make([]objects.Info, d.files.Len())
	for i := range all {
		all[i] = d.files.At(i)
	}
	slices.SortFunc(all, func(a, b objects.Info) int { return strings.Compare(a.Name, b.Name) })
	d.files = manifest.Manifest{}
	for _, o := range all {
		d.files.Append(o)
	}
}

// notes are what the user should know.
func (w *walk) notes() []string {
	var notes []string
	say := func(f *found, what, more string) {
		if f.count > 0 {
			notes = append(notes, fmt.Sprintf("skipped %s%s: %s", plural.Of(f.count, what), more, f))
		}
	}
	say(&w.hiddenDirs, "hidden folder", "")
	say(&w.hiddenFiles, "hidden file", "")
	say(&w.loose, "file", " outside the class directories")
	say(&w.others, "file", " in class directories that end as no image does")
	if parts := w.parts(); parts != "" {
		notes = append(notes, fmt.Sprintf("the classes are %s; if these are parts of a data set, give the address of one of them", parts))
	}
	return notes
}

// parts names the classes if they are called as parts of data sets are.
func (w *walk) parts() string {
	names := slices.Sorted(maps.Keys(w.classes))
	for _, name := range names {
		switch strings.ToLower(name) {
		case "train", "training", "val", "valid", "validation", "test", "testing":
		default:
			return ""
		}
	}
	return strings.Join(names, ", ")
}
