package data

import (
	"fmt"
	"io"
	"strconv"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/internal/source/recordio"
	"github.com/paragon-train/paragon/data/internal/source/tarshards"
	"github.com/paragon-train/paragon/data/transform"
)

// Decode decodes an image that ReadEncoded has read, without the transforms.
func (m *Images) Decode(encoded []byte) (*transform.Image, error) {
	return decode.Image(nil, encoded, decode.Config{Channels: m.cfg.Channels, MaxPixels: m.cfg.MaxPixels, Orient: m.cfg.Orient})
}

// ImageSize says what an encoded image is without decoding it: its format, such as "jpeg", "png" or
// "webp", and its size.
func ImageSize(encoded []byte) (format string, width, height int, err error) {
	return decode.Size(encoded)
}

// A RecordConfig says how a RecordWriter writes.
type RecordConfig struct {
	// PackLabel writes one label behind the header of a record, as several are, and not into
	// it: im2rec's --pack-label.
	PackLabel bool
}

// A RecordWriter writes images as a RecordIO file, byte for byte as MXNet's im2rec does, and its
// index. It does not buffer.
type RecordWriter struct {
	w   *recordio.Writer
	cfg RecordConfig
}

// NewRecordWriter makes a writer of a .rec file, and of its .idx file if idx is not nil.
func NewRecordWriter(rec, idx io.Writer, cfg RecordConfig) *RecordWriter {
	return &RecordWriter{recordio.NewWriter(rec, idx), cfg}
}

// Write appends an example, with at least one label. The id is its key in the index.
func (w *RecordWriter) Write(id uint64, e Encoded) error {
	return w.w.Write(recordio.Entry{ID: id, Labels: e.Labels, Packed: w.cfg.PackLabel, Image: e.Image})
}

// Size is how many bytes have been written into the .rec file.
func (w *RecordWriter) Size() int64 { return w.w.Size() }

// A TarConfig says how a TarWriter cuts examples into shards.
type TarConfig struct {
	// Name is the pattern of the shards' names, with the place of a number from 0 on. Empty
	// means "shard-%06d.tar".
	Name string
	// MaxCount is how many examples a shard has at most. Zero means 100,000.
	MaxCount int
	// MaxSize is from how many bytes on a shard is full. Zero means 3,000,000,000.
	MaxSize int64
	// Create makes the file of a shard. The writer closes it.
	Create func(name string) (io.WriteCloser, error)
}

// A TarWriter writes images as tar shards that WebDataset reads: KEY.jpg (or .png and so on, as the
// image is), and KEY.cls with the class, or KEY.json with a list of several labels. The same
// examples make the same bytes.
type TarWriter struct{ w *tarshards.Writer }

// NewTarWriter makes a writer. It begins a shard with the first example.
func NewTarWriter(cfg TarConfig) (*TarWriter, error) {
	w, err := tarshards.NewWriter(tarshards.WriterConfig{Name: cfg.Name, MaxCount: cfg.MaxCount, MaxSize: cfg.MaxSize, Create: cfg.Create})
	if err != nil {
		return nil, err
	}
	return &TarWriter{w}, nil
}

// extensions are how members of tar archives end by the format of the image.
var extensions = map[string]string{"jpeg": "jpg", "png": "png", "webp": "webp", "bmp": "bmp", "tiff": "tif", "pnm": "ppm"}

// Write appends an example. The key names it in its shard; it may have slashes, and no dot behind
// the last one.
func (w *TarWriter) Write(key string, e Encoded) error {
	format, _, _, err := decode.Size(e.Image)
	if err != nil {
		return fmt.Errorf("data: tar shards: sample %q: %w", key, err)
	}
	extension, ok := extensions[format]
	if !ok {
		extension = "img"
	}
	members := []tarshards.Member{{Extension: extension, Data: e.Image}}
	if len(e.Labels) > 0 {
		members = append(members, labelMember(e.Labels))
	}
	return w.w.Write(key, members...)
}

// labelMember has the labels of an example: a .cls member for one, a .json member for several.
func labelMember(labels []float32) tarshards.Member {
	if len(labels) == 1 {
		return tarshards.Member{Extension: "cls", Data: strconv.AppendFloat(nil, float64(labels[0]), 'f', -1, 32)}
	}
	text := []byte{'['}
	for i, label := range labels {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, float64(label), 'f', -1, 32)
	}
	return tarshards.Member{Extension: "json", Data: append(text, ']')}
}

// Close ends the last shard.
func (w *TarWriter) Close() error { return w.w.Close() }
