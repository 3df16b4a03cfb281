package datacheck

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Write writes the report as lines for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	sound := r.Images - r.Damaged
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("images", "%s, %s, %s damaged", count(r.Images), size(r.Bytes), count(r.Damaged))
	if sound > 0 {
		formats := slices.SortedFunc(maps.Keys(r.Formats), func(a, b string) int {
			return cmp.Or(r.Formats[b]-r.Formats[a], strings.Compare(a, b))
		})
		for i, f := range formats {
			formats[i] = f + " " + count(r.Formats[f])
		}
		line("formats", "%s", strings.Join(formats, ", "))
		line("sizes", "%d×%d to %d×%d, mean %s pixels and %s", r.Smallest.Width, r.Smallest.Height, r.Largest.Width, r.Largest.Height,
			count(int(r.Pixels/int64(sound))), size(r.Bytes/int64(sound)))
	}
	r.writeClasses(line)
	if r.Sorted != nil {
		line("order", "%s", r.sortedText())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeClasses(line func(what, format string, args ...any)) {
	var fewest, most, with, empty int
	var none []string
	for label, c := range r.Classes {
		if c.Images == 0 {
			if empty++; len(none) < 3 {
				none = append(none, r.name(label))
			}
			continue
		}
		if with == 0 || c.Images < r.Classes[fewest].Images {
			fewest = label
		}
		if with == 0 || c.Images > r.Classes[most].Images {
			most = label
		}
		with++
	}
	if with > 0 {
		line("classes", "%s, the fewest images %s in %s, the most %s in %s", count(with), count(r.Classes[fewest].Images), r.name(fewest),
			count(r.Classes[most].Images), r.name(most))
	}
	if with > 0 && empty > 0 {
		more := ""
		if empty > len(none) {
			more = ", ..."
		}
		line("", "%s without an image: %s%s", count(empty), strings.Join(none, ", "), more)
	}
	for _, n := range slices.Sorted(maps.Keys(r.Labels)) {
		if n == 0 {
			line("labels", "none in %s", images(r.Labels[n]))
		} else {
			line("labels", "%d in %s", n, images(r.Labels[n]))
		}
	}
	if r.Other > 0 {
		line("labels", "one that is no class, such as a number with a fraction, in %s", images(r.Other))
	}
}

// WriteClasses writes a table of the classes.
func (r *Report) WriteClasses(w io.Writer) error {
	if len(r.Classes) == 0 {
		return nil
	}
	width := len("class")
	for label := range r.Classes {
		width = max(width, len([]rune(r.name(label))))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%8s  %-*s %10s %12s\n", "label", width, "class", "images", "mean size")
	for label, c := range r.Classes {
		mean := "-"
		if c.Images > 0 {
			mean = size(c.Bytes / int64(c.Images))
		}
		fmt.Fprintf(&b, "%8d  %-*s %10s %12s\n", label, width, c.Name, count(c.Images), mean)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// name is what a label is called.
func (r *Report) name(label int) string {
	if name := r.Classes[label].Name; name != "" {
		return name
	}
	return "label " + strconv.Itoa(label)
}

// count writes a number with commas: 1,281,167.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// images is a number of images.
func images(n int) string {
	if n == 1 {
		return "1 image"
	}
	return count(n) + " images"
}

// size writes bytes: 512 B, 110 KB, 138.2 GB.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// A Report says what there is.
type Report struct {
	// Images is how many examples there are, Damaged how many of them are.
	Images, Damaged int
	// Bytes is how many bytes the images have that could be read.
	Bytes int64
	// Formats has how many images are of each format.
	Formats map[string]int
	// Smallest and Largest are the images of the fewest and the most pixels.
	Smallest, Largest Size
	// Pixels is how many pixels the images have in all.
	Pixels int64
	// Classes has the images of each label.
	Classes []Class
	// Labels has how many images have a number of labels other than one, by that number.
	Labels map[int]int
	// Other is how many have one label that is no class.
	Other int
	// Sorted is where data is sorted by class, which an order by blocks does not mix; nil:
	// nowhere.
	Sorted *Run
}

// A Size is the width and height of an image, in pixels.
type Size struct{ Width, Height int }

// pixels is the area, by which sizes are compared.
func (s Size) pixels() int64 { return int64(s.Width) * int64(s.Height) }

// A Class counts the images of a label.
type Class struct {
	// Name is empty if the class has none.
	Name string

	Images int
	Bytes  int64
}

// A Run is a window of neighbouring blocks in which one class has more than half of the images,
// and in all of the data less.
type Run struct {
	// First and Last are the examples of the window.
	First, Last int
	// Label is the class, Images how many of the window's Sound images are of it.
	Label, Images, Sound int
}

// sortedText is one sentence for people that says what to do about sorted data.
func (r *Report) sortedText() string {
	run := r.Sorted
	return fmt.Sprintf("sorted by class: of images %s to %s, %s are of %s; an order by blocks shows workers few classes at a time, so mix them: launch data pack --shuffle",
		count(run.First), count(run.Last), count(run.Images), r.name(run.Label))
}
