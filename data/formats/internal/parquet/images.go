package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// imageCache bounds the decoded row groups of images in memory.
const imageCache = 512 << 20

// imageNames and labelNames are what columns of images and labels are called, the first found one
// counts. An image may be a struct of bytes and a path, as Hugging Face's datasets have it.
var (
	imageNames = []string{"image", "img", "jpg", "jpeg", "png", "webp", "picture", "photo"}
	labelNames = []string{"label", "labels", "fine_label", "class", "cls", "target"}
)

// images is a source of the images in a table.
type images struct {
	rows  table.Source
	cache *table.Cache

	// names are those of the files.
	names []string

	first  []int // rows of the files
	labels bool

	// numbers says that the labels are Ints.
	numbers bool
	classes []string
}

// OpenImages makes a source of the images in Parquet files.
func OpenImages(ctx context.Context, store objects.Store, objects []objects.Info, columns source.Columns) (source.Source, error) {
	s := &images{}
	var files []table.Source
	rows := 0
	for _, object := range objects {
		f, err := open(ctx, store, object)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", store.URL(), err)
		}
		if len(files) == 0 {
			s.classes = classes(f.notes, names(columns.Label, labelNames))
		}
		files, s.names, s.first = append(files, f), append(s.names, object.Name), append(s.first, rows)
		rows += f.blocks[len(f.blocks)-1]
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("data: %s: got no files, want Parquet files of images", store.URL())
	}
	joined, err := table.Join(files, s.names)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", store.URL(), err)
	}
	s.rows = joined
	chosen, err := s.choose(joined.Columns(), columns)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %s: %w", store.URL(), s.names[0], err)
	}
	s.cache = table.NewCache(joined, chosen, imageCache)
	return s, nil
}

// names are those that a column may have: the one that is wanted, or the usual ones.
func names(wanted string, usual []string) []string {
	if wanted != "" {
		return []string{wanted}
	}
	return usual
}

// choose finds the columns of images and labels.
func (s *images) choose(columns []table.Column, wanted source.Columns) (chosen []int, err error) {
	find := func(name string) int {
		return slices.IndexFunc(columns, func(c table.Column) bool { return c.Name == name && c.Refused == "" })
	}
	for _, name := range names(wanted.Image, imageNames) {
		for _, n := range []string{name + ".bytes", name} {
			if c := find(n); c >= 0 && columns[c].Kind == table.Bytes {
				chosen = []int{c}
			}
		}
		if chosen != nil {
			break
		}
	}
	if chosen == nil {
		var have []string
		for _, c := range columns {
			have = append(have, c.Name)
		}
		return nil, fmt.Errorf("has no column of images: want bytes called %s, or a struct of that name with bytes; it has %s", strings.Join(names(wanted.Image, imageNames), ", "), strings.Join(have, ", "))
	}
	for _, name := range names(wanted.Label, labelNames) {
		if c := find(name); c >= 0 && columns[c].Kind != table.Bytes {
			s.labels, s.numbers = true, columns[c].Kind == table.Int
			return append(chosen, c), nil
		}
	}
	if wanted.Label != "" {
		return nil, fmt.Errorf("has no column %q of numbers for labels", wanted.Label)
	}
	return chosen, nil
}

// classes are the names that Hugging Face's datasets keep in a file.
func classes(notes map[string]string, columns []string) []string {
	var note struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(notes["huggingface"]), &note) != nil {
		return nil
	}
	for _, name := range columns {
		var feature struct {
			Names []string `json:"names"`
		}
		if json.Unmarshal(note.Info.Features[name], &feature) == nil && len(feature.Names) > 0 {
			return feature.Names
		}
	}
	return nil
}

func (s *images) Len() int            { return s.rows.Blocks()[len(s.rows.Blocks())-1] }
func (s *images) Classes() []string   { return s.classes }
func (s *images) Fingerprint() string { return s.rows.Fingerprint() }
func (s *images) Close() error        { return s.rows.Close() }

// Range implements source.Source. An image is read with its row group.
func (s *images) Range(int) (objects.Range, bool) { return objects.Range{}, false }

// Blocks implements source.Source. The end of the last row group is not a beginning.
func (s *images) Blocks() []int {
	blocks := s.rows.Blocks()
	return blocks[:len(blocks)-1]
}

// Read implements source.Source.
func (s *images) Read(ctx context.Context, i int, buf []byte) (source.Example, error) {
	if err := source.CheckIndex(i, s.Len()); err != nil {
		return source.Example{}, err
	}
	f := table.Find(s.first, i)

	// Files without rows begin where the next one does.
	for f < len(s.first)-1 && s.first[f+1] == i {
		f++
	}
	name := fmt.Sprintf("%s, row %d", s.names[f], i-s.first[f])
	e, err := s.read(ctx, i, buf)
	if err != nil {
		return source.Example{}, source.Blame(i, name, err)
	}
	e.Name = name
	return e, nil
}

// read reads row i by way of its row group, which the cache keeps. Damage within a page is a fault
// of the example; that a file cannot be read is not.
func (s *images) read(ctx context.Context, i int, buf []byte) (e source.Example, err error) {
	if err := ctx.Err(); err != nil {
		return e, err
	}
	number := table.Find(s.rows.Blocks(), i)
	block, err := s.cache.Block(ctx, number)
	var page *pageError
	if errors.As(err, &page) {
		return e, source.Fault{Err: err}
	}
	if err != nil {
		return e, err
	}
	row := i - s.rows.Blocks()[number]
	image := &block.Columns[0]
	if image.Null(row) || len(image.At(row)) == 0 {
		return e, source.Fault{Err: errors.New("the row has no bytes of an image: a path alone is not read")}
	}
	b := image.At(row)
	if buf, err = source.Room(buf, int64(len(b))); err != nil {
		return e, source.Fault{Err: err}
	}
	copy(buf, b)
	e.Image = buf
	if s.labels && !block.Columns[1].Null(row) {
		if s.numbers {
			e.Labels = []float32{float32(block.Columns[1].Ints[row])}
		} else {
			e.Labels = []float32{block.Columns[1].Floats[row]}
		}
	}
	return e, nil
}
