package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/data/internal/decode"
	encoded "github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/transform"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/sampler"
)

// Images are encoded images that lie in files or objects, and are read, decoded and transformed as
// they are asked for. OpenImages makes them. Their methods may be called from several goroutines at
// once.
//
// They are a Dataset, and an ExampleReader and Announcer for a Loader.
type Images struct {
	source encoded.Source
	url    string // for messages only
	shape  Shape
	cfg    OpenOptions

	// classes are by label; nil: they have no names.
	classes []string

	// labels are by label of the source; nil: labels are as they are in the source.
	labels []int

	// ahead is nil if nothing is read ahead.
	ahead announcer

	close func() error

	// scratch has *imageScratch.
	scratch sync.Pool
}

// An announcer reads ranges of objects ahead.
type announcer interface {
	Announce(ctx context.Context, ranges []objects.Range)
}

// An imageScratch is what the reading of one image needs, used again for the next one.
type imageScratch struct {
	encoded []byte
	decoded *transform.Image
}

// Len is the number of images.
func (m *Images) Len() int { return m.source.Len() }

// Shape is the shape of each image after the transforms.
func (m *Images) Shape() Shape { return m.shape }

// LabelWidth is OpenOptions.LabelWidth.
func (m *Images) LabelWidth() int { return m.cfg.LabelWidth }

// Classes are the names of the classes by label; nil: the data does not name them.
func (m *Images) Classes() []string { return slices.Clone(m.classes) }

// Blocks are the numbers of the first examples of runs that are cheap to read together, such as
// shards, rising from 0; nil: examples in any order are as cheap. See sampler.Blocks.
func (m *Images) Blocks() []int { return m.source.Blocks() }

// Order is the order of an epoch that suits the data, wherever it lies: a permutation of all
// examples where each can be read by itself, and else, as in Parquet or in compressed shards, one
// of blocks that are read as a whole, mixed within windows of 16.
func (m *Images) Order() sampler.Order {
	const window = 16
	firsts := m.source.Blocks()
	if _, ok := m.source.Range(0); ok || len(firsts) < 2 {
		return sampler.Permutation
	}
	return sampler.Blocks(firsts, window)
}

// Fingerprint tells one state of the data from another: it covers the names and sizes of its files
// in their order, and the classes. A copy of the same files in another place has the same one.
func (m *Images) Fingerprint() string { return m.source.Fingerprint() }

// CheckHashes reads the files whole and compares them with the hashes that the data has of them, as
// MDS may. It returns how many files have one that could be checked, and what differs; err is of
// the storage.
func (m *Images) CheckHashes(ctx context.Context) (checked int, wrong []error, err error) {
	c, ok := m.source.(interface {
		CheckHashes(ctx context.Context) (checked int, wrong []error, err error)
	})
	if !ok {
		return 0, nil, nil
	}
	return c.CheckHashes(ctx)
}

// Decoder tells versions of what decodes images apart: another one may give pixels that differ a
// little.
func (m *Images) Decoder() string { return decode.Fingerprint() }

// Close gives back files, connections and memory. No other call may be under way.
func (m *Images) Close() error { return m.close() }

// Announce implements Announcer.
func (m *Images) Announce(ctx context.Context, indices []int) {
	if m.ahead == nil {
		return
	}
	ranges := make([]objects.Range, 0, len(indices))
	for _, i := range indices {
		if r, ok := m.source.Range(i); ok {
			ranges = append(ranges, r)
		}
	}
	m.ahead.Announce(ctx, ranges)
}

// Read implements Dataset, with no random numbers: transforms that draw are an error.
func (m *Images) Read(i int, dst []uint8) (label int, err error) {
	e := Example{Pixels: dst, Labels: make([]float32, m.cfg.LabelWidth)}
	err = m.ReadExample(context.Background(), i, &e)
	return e.Label, err
}

// ReadExample implements ExampleReader.
func (m *Images) ReadExample(ctx context.Context, i int, e *Example) error {
	s := m.take()
	defer m.scratch.Put(s)
	x, err := m.read(ctx, i, s)
	if err != nil {
		return err
	}
	if err := m.label(i, &x, e); err != nil {
		return err
	}
	image, err := m.image(i, &x, s, e.Draw)
	if err != nil {
		return err
	}
	if got := shapeOf(image); got != m.shape {
		return m.otherShape(i, x.Name, got)
	}
	planes(e.Pixels, image)
	return nil
}

func (m *Images) take() *imageScratch {
	if s, ok := m.scratch.Get().(*imageScratch); ok {
		return s
	}
	return &imageScratch{decoded: new(transform.Image)}
}

// read reads what is encoded.
func (m *Images) read(ctx context.Context, i int, s *imageScratch) (encoded.Example, error) {
	if i < 0 || i >= m.source.Len() {
		return encoded.Example{}, fmt.Errorf("data: %s: got image %d, want 0 to %d", m.url, i, m.source.Len()-1)
	}
	x, err := m.source.Read(ctx, i, s.encoded)
	if cap(x.Image) > cap(s.encoded) {
		s.encoded = x.Image
	}
	var bad *encoded.BadError
	if errors.As(err, &bad) {
		err = &BadExampleError{Example: i, Name: bad.Name, Err: bad.Err}
	}
	return x, err
}

// image decodes an image and applies the transforms. It may lie in s.
func (m *Images) image(i int, x *encoded.Example, s *imageScratch, draw *rand.Rand) (*transform.Image, error) {
	cfg := decode.Config{Channels: m.cfg.Channels, MaxPixels: m.cfg.MaxPixels, Orient: m.cfg.Orient}
	image, err := decode.Transform(s.decoded, x.Image, cfg, m.cfg.Transforms, draw)
	var bad *decode.Error
	switch {
	case errors.As(err, &bad):
		return nil, &BadExampleError{Example: i, Name: x.Name, Err: err}
	case err != nil:
		return nil, fmt.Errorf("data: %s: image %d (%s): %w", m.url, i, x.Name, err)
	}
	return image, nil
}

// label fills the labels of an example in.
func (m *Images) label(i int, x *encoded.Example, e *Example) error {
	wrong := func(want string) error {
		return fmt.Errorf("data: %s: image %d (%s): got labels %v, want %s", m.url, i, x.Name, x.Labels, want)
	}
	width := m.cfg.LabelWidth
	switch {
	case width > 0 && len(x.Labels) != width:
		return wrong(fmt.Sprintf("%d of them (OpenOptions.LabelWidth)", width))
	case width > 0:
		copy(e.Labels, x.Labels)
		return nil
	case len(x.Labels) == 0:
		e.Label = -1
		return nil
	case len(x.Labels) > 1:
		return wrong("one; set OpenOptions.LabelWidth for several")
	}
	label := float64(x.Labels[0])
	if label != math.Trunc(label) || label < -1 || label > math.MaxInt32 {
		return wrong("the number of a class; set OpenOptions.LabelWidth to 1 for a number that is none")
	}
	e.Label = max(int(label)-m.cfg.FirstLabel, -1)
	switch {
	case e.Label < 0:
	case m.labels != nil && e.Label >= len(m.labels):
		return wrong(fmt.Sprintf("one of the %d classes", len(m.labels)))
	case m.labels != nil:
		e.Label = m.labels[e.Label]
	case m.classes != nil && e.Label >= len(m.classes):
		return wrong(fmt.Sprintf("one of the %d classes", len(m.classes)))
	}
	return nil
}

func shapeOf(image *transform.Image) Shape { return Shape{image.Channels, image.Height, image.Width} }

func (m *Images) otherShape(i int, name string, got Shape) error {
	return fmt.Errorf("data: %s: image %d (%s): got %v after the transforms, want %v, the shape of the data set; add a transform that makes all images of one size, such as transform.CenterCrop",
		m.url, i, name, got, m.shape)
}

// planes writes pixels channel by channel.
func planes(dst []uint8, image *transform.Image) {
	n := image.Width * image.Height
	switch image.Channels {
	case 1:
		copy(dst[:n], image.Pix)
	case 3:
		red, green, blue := dst[:n], dst[n:2*n], dst[2*n:3*n]
		for i := range n {
			p := image.Pix[3*i : 3*i+3 : 3*i+3]
			red[i], green[i], blue[i] = p[0], p[1], p[2]
		}
	}
}

// An Encoded is an example as it lies in the data, before it is decoded: for tools that pack, check
// or show it.
type Encoded struct {
	// Image is an encoded image, such as the bytes of a JPEG file.
	Image []byte
	// Labels are those of the format: one number for a class.
	Labels []float32
	// Name says which example it is, such as its file.
	Name string
}

// ReadEncoded reads example i as it lies there; a class is the one of Classes. A *BadExampleError
// says that it is damaged.
func (m *Images) ReadEncoded(ctx context.Context, i int) (Encoded, error) {
	x, err := m.read(ctx, i, new(imageScratch))
	if err == nil && m.labels != nil && len(x.Labels) == 1 {
		// Another label than a class is the caller's to judge.
		if label := int(x.Labels[0]); float32(label) == x.Labels[0] && label >= 0 && label < len(m.labels) {
			x.Labels = []float32{float32(m.labels[label])}
		}
	}
	return Encoded(x), err
}

// Counts reads the labels of all examples, and returns how many each class has: of a folder at
// once, of other formats by reading all. Damaged examples, and those without a class, are not
// counted. Images with several labels have no classes.
func (m *Images) Counts(ctx context.Context) ([]int, error) {
	if m.cfg.LabelWidth > 0 {
		return nil, fmt.Errorf("data: %s: count classes: its examples have %d labels, want one", m.url, m.cfg.LabelWidth)
	}
	counts := make([]int, len(m.classes))
	s := new(imageScratch)
	for i := range m.Len() {
		x, err := m.read(ctx, i, s)
		var bad *BadExampleError
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var e Example
		if err := m.label(i, &x, &e); err != nil {
			return nil, err
		}
		if e.Label >= mostClasses {
			return nil, fmt.Errorf("data: %s: image %d (%s): got label %d, want below %d", m.url, i, x.Name, e.Label, mostClasses)
		}
		for e.Label >= len(counts) {
			counts = append(counts, 0)
		}
		if e.Label >= 0 {
			counts[e.Label]++
		}
	}
	return counts, nil
}

// mostClasses bounds what a damaged label can make Counts take.
const mostClasses = 1 << 24

// relabel finds out what the labels of the source are among the classes that are wanted, by name.
func (m *Images) relabel() error {
	own := m.source.Classes()
	m.classes = own
	if len(m.cfg.Classes) == 0 {
		return nil
	}
	m.classes = slices.Clone(m.cfg.Classes)
	if own == nil || slices.Equal(own, m.classes) {
		return nil
	}
	at := make(map[string]int, len(m.classes))
	for label, name := range m.classes {
		at[name] = label
	}
	var unknown []string
	for _, name := range own {
		label, ok := at[name]
		if !ok {
			unknown = append(unknown, name)
		}
		m.labels = append(m.labels, label)
	}
	if len(unknown) > 0 {
		return fmt.Errorf("data: %s: got %d classes that are not among the %d wanted (OpenOptions.Classes): %s", m.url, len(unknown), len(m.classes), firstFew(unknown))
	}
	return nil
}

// firstFew lists some names.
func firstFew(names []string) string {
	const few = 5
	if len(names) > few {
		return fmt.Sprintf("%q and %d more", names[:few], len(names)-few)
	}
	return fmt.Sprintf("%q", names)
}

// findShape finds the size of images out: of the transforms, or of the first image that is not
// damaged.
func (m *Images) findShape(ctx context.Context) error {
	m.shape = Shape{Channels: m.cfg.Channels}
	for _, t := range m.cfg.Transforms {
		if s, ok := t.(transform.Sizer); ok {
			m.shape.Width, m.shape.Height = s.Size()
		}
	}
	if m.shape.Width > 0 && m.shape.Height > 0 {
		return nil
	}
	const tries = 100
	var last error
	s := new(imageScratch)
	s.decoded = new(transform.Image)
	for i := range min(m.Len(), tries) {
		x, err := m.read(ctx, i, s)
		var image *transform.Image
		if err == nil {
			image, err = m.image(i, &x, s, rand.New(rand.NewPCG(0, uint64(i))))
		}
		var bad *BadExampleError
		switch {
		case err == nil:
			m.shape = shapeOf(image)
			return nil
		case !errors.As(err, &bad):
			return err
		}
		last = err
	}
	return fmt.Errorf("data: %s: no image can be read to find the size of all out; a transform that fixes it, such as transform.CenterCrop, does without: %w", m.url, last)
}

// warn logs what the user should know about the data.
func (m *Images) warn(logger *slog.Logger) {
	if n, ok := m.source.(interface{ Notes() []string }); ok && logger != nil {
		for _, note := range n.Notes() {
			logger.Warn("data: "+strings.TrimSuffix(note, "."), "data", m.url)
		}
	}
}

// warnOfCache logs that the cache has no room for the data, if then it does harm: it fetches a
// whole block for each example that an order of all examples asks for, and has dropped it before
// the next one of the block comes.
func (m *Images) warnOfCache() {
	if m.ahead == nil || m.cfg.CacheDir == "" {
		return
	}
	const (
		samples = 100_000

		// block is that of the cache.
		block = 4 << 20

		// harm is how many times the bytes of the examples may be fetched without a warning.
		harm = 2
	)
	step := max(1, m.Len()/samples)
	var looked, wanted, fetched int64
	for i := 0; i < m.Len(); i += step {
		r, ok := m.source.Range(i)
		if !ok {
			return // Order is by blocks.
		}
		looked++
		wanted += r.Length
		fetched += max(r.Length, min(block, r.Object.Size))
	}
	size := int64(float64(wanted) / float64(looked) * float64(m.Len()))
	if size <= m.cfg.CacheBytes || fetched <= harm*wanted {
		return
	}
	logger := m.cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("data: the cache is smaller than the data: in an order of all examples it fetches up to 4 MiB for each one, again in every epoch; "+
		"make it larger, do without it, or order by blocks", "data", m.url, "bytes", size, "cache_bytes", m.cfg.CacheBytes, "fetched_per_byte", fetched/wanted)
}
