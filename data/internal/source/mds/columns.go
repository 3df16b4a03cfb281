package mds

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A column is one of a shard's.
type column struct {
	name string

	// encoding comes without arguments.
	encoding string

	// args is what follows the encoding's colon.
	args string

	// size is that of a value; 0: each value has its own.
	size int64
}

func (s *shardInfo) columns() []column {
	columns := make([]column, len(s.ColumnNames))
	for k := range columns {
		c := &columns[k]
		c.name = s.ColumnNames[k]
		c.encoding, c.args, _ = strings.Cut(s.ColumnEncodings[k], ":")
		if size := s.ColumnSizes[k]; size != nil {
			c.size = *size
		}
	}
	return columns
}

var errPickle = errors.New("is encoded as pkl: a pickle could run any code when it is read, and is never read; " +
	"write the data anew with jpeg, png, bytes, int, ndarray or json")

// values cuts a sample into the values of its columns.
func values(sample []byte, columns []column, found func(k int, value []byte)) error {
	var sizes [16]int64
	all := sizes[:0]
	rest := sample
	for _, c := range columns {
		size := c.size
		if size == 0 {
			if len(rest) < 4 {
				return fmt.Errorf("the sample of %d bytes ends inside the sizes of its columns", len(sample))
			}
			size = int64(binary.LittleEndian.Uint32(rest))
			rest = rest[4:]
		}
		all = append(all, size)
	}
	for k, size := range all {
		if size > int64(len(rest)) {
			return fmt.Errorf("column %s has %d bytes, and the sample %d more", columns[k].name, size, len(rest))
		}
		found(k, rest[:size:size])
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes follow the last column of the sample", len(rest))
	}
	return nil
}

// imageEncodings are those of images, the most certain first.
var imageEncodings = []string{"jpeg", "png", "jpeg_array", "jpegarray", "pil", "bytes", "ndarray"}

// Names of columns by which images and labels are found.
var (
	imageNames = []string{"image", "img", "images", "jpg", "jpeg", "png", "x"}
	labelNames = []string{"label", "labels", "cls", "class", "class_id", "y", "target"}
)

// findImage returns the column of images: that of the name, or the one that looks like it.
func findImage(columns []column, name string) (int, error) {
	can := func(c column) bool { return slices.Contains(imageEncodings, c.encoding) }
	if name == "" {
		for _, n := range imageNames {
			if k := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, n) && can(c) }); k >= 0 {
				return k, nil
			}
		}
		for _, encoding := range imageEncodings[:5] {
			if k := slices.IndexFunc(columns, func(c column) bool { return c.encoding == encoding }); k >= 0 {
				return k, nil
			}
		}
		return 0, fmt.Errorf("no column looks like images: there are %s; name the one that has them", describe(columns))
	}
	k := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	switch {
	case k < 0:
		return 0, fmt.Errorf("there is no column %s, only %s", name, describe(columns))
	case columns[k].encoding == "pkl":
		return 0, fmt.Errorf("column %s %w", name, errPickle)
	case !can(columns[k]):
		return 0, fmt.Errorf("column %s is encoded as %s, want images: %s", name, columns[k].encoding, strings.Join(imageEncodings, ", "))
	}
	return k, nil
}

// findLabel returns the column of labels; −1: there is none.
func findLabel(columns []column, name string) (int, error) {
	names := labelNames
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		k := slices.IndexFunc(columns, func(c column) bool { return c.name == n || name == "" && strings.EqualFold(c.name, n) })
		if k < 0 {
			continue
		}
		c := columns[k]
		switch {
		case c.encoding == "pkl":
			return 0, fmt.Errorf("column %s %w", c.name, errPickle)
		case scalarSize(c.encoding) > 0, slices.Contains([]string{"str", "str_int", "str_float", "str_decimal", "json", "ndarray"}, c.encoding):
			return k, nil
		case name != "":
			return 0, fmt.Errorf("column %s is encoded as %s, want numbers", name, c.encoding)
		}
	}
	if name != "" {
		return 0, fmt.Errorf("there is no column %s, only %s", name, describe(columns))
	}
	return -1, nil
}

// describe lists columns for a message, not more than fit.
func describe(columns []column) string {
	var all []string
	for _, c := range columns[:min(len(columns), 20)] {
		all = append(all, c.name+" ("+c.encoding+")")
	}
	return strings.Join(all, ", ")
}

// scalarSize is how many bytes a number of an encoding or a dtype has; 0: it is none.
func scalarSize(encoding string) int {
	switch encoding {
	case "uint8", "int8":
		return 1
	case "uint16", "int16", "float16":
		return 2
	case "uint32", "int32", "float32":
		return 4
	case "uint64", "int64", "float64", "int":
		return 8
	}
	return 0
}

// number reads a number of an encoding.
func number(encoding string, p []byte) float64 {
	switch encoding {
	case "uint8":
		return float64(p[0])
	case "int8":
		return float64(int8(p[0]))
	case "uint16":
		return float64(binary.LittleEndian.Uint16(p))
	case "int16":
		return float64(int16(binary.LittleEndian.Uint16(p)))
	case "uint32":
		return float64(binary.LittleEndian.Uint32(p))
	case "int32":
		return float64(int32(binary.LittleEndian.Uint32(p)))
	case "uint64":
		return float64(binary.LittleEndian.Uint64(p))
	case "int64", "int":
		return float64(int64(binary.LittleEndian.Uint64(p)))
	case "float16":
		return float16(binary.LittleEndian.Uint16(p))
	case "float32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(p)))
	default:
		return math.Float64frombits(binary.LittleEndian.Uint64(p))
	}
}

// float16 is the value of a float of 16 bits.
func float16(b uint16) float64 {
	exponent, fraction := int(b>>10&31), float64(b&1023)
	v := math.Ldexp(fraction, -24)
	switch {
	case exponent == 31 && fraction == 0:
		v = math.Inf(1)
	case exponent == 31:
		v = math.NaN()
	case exponent > 0:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if b>>15 == 1 {
		return -v
	}
	return v
}

// maxLabels bounds how many numbers one label has.
const maxLabels = 1 << 16

// labels reads the value of a column of labels.
func (c *column) labels(value []byte) (labels []float32, err error) {
	var list []float64
	switch {
	case scalarSize(c.encoding) > 0:
		if len(value) != scalarSize(c.encoding) {
			return nil, fmt.Errorf("got %d bytes for %s, want %d", len(value), c.encoding, scalarSize(c.encoding))
		}
		list = []float64{number(c.encoding, value)}
	case strings.HasPrefix(c.encoding, "str"):
		v, err := strconv.ParseFloat(strings.TrimSpace(string(value[:min(len(value), 64)])), 64)
		if err != nil {
			return nil, fmt.Errorf("got %.40q, want a number", value)
		}
		list = []float64{v}
	case c.encoding == "json":
		var one *float64
		if err := json.Unmarshal(value, &list); err != nil {
			if err := json.Unmarshal(value, &one); err != nil || one == nil {
				return nil, fmt.Errorf("got JSON %.40q, want a number or a list of numbers", value)
			}
			list = []float64{*one}
		}
	default:
		a, err := parseArray(c.args, value)
		if err != nil {
			return nil, err
		}
		size := scalarSize(a.dtype)
		if len(a.data)/size > maxLabels {
			return nil, fmt.Errorf("got %d numbers, want at most %d", len(a.data)/size, maxLabels)
		}
		for ; len(a.data) > 0; a.data = a.data[size:] {
			list = append(list, number(a.dtype, a.data))
		}
	}
	if len(list) == 0 || len(list) > maxLabels {
		return nil, fmt.Errorf("got %d numbers, want 1 to %d", len(list), maxLabels)
	}
	for _, v := range list {
		if math.IsNaN(v) || math.IsInf(v, 0) || v == math.Trunc(v) && math.Abs(v) > 1<<24 {
			return nil, fmt.Errorf("got %v, want numbers, and whole ones to 16777216", v)
		}
		labels = append(labels, float32(v))
	}
	return labels, nil
}

// An array is a value of encoding ndarray.
type array struct {
	dtype string
	shape []int64
	data  []byte
}

// dtypes are numpy's by MDS's numbers.
var dtypes = map[byte]string{8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32", 64: "uint64", 65: "int64", 66: "float64"}

// parseArray reads an array. The arguments of its encoding are "dtype:shape"; what they leave out
// comes before the data: a byte of the dtype, and a byte of dimensions<<2 | the logarithm of the
// bytes of each, with them behind it.
func parseArray(args string, value []byte) (a array, err error) {
	short := fmt.Errorf("an array of %d bytes ends inside its head", len(value))
	dtype, shape, _ := strings.Cut(args, ":")
	if a.dtype = dtype; dtype == "" {
		if len(value) < 1 {
			return a, short
		}
		if a.dtype = dtypes[value[0]]; a.dtype == "" {
			return a, fmt.Errorf("got dtype %d of an array, which is none", value[0])
		}
		value = value[1:]
	}
	if scalarSize(a.dtype) == 0 || a.dtype == "int" {
		return a, fmt.Errorf("got dtype %q of an array, which is none", a.dtype)
	}
	want := int64(scalarSize(a.dtype))
	add := func(d uint64) error {
		if d == 0 || d > maxShard || want > maxShard/int64(d) {
			return fmt.Errorf("got a dimension of %d in an array of %d bytes", d, len(value))
		}
		a.shape, want = append(a.shape, int64(d)), want*int64(d)
		return nil
	}
	if shape != "" {
		for d := range strings.SplitSeq(shape, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(d), 10, 32)
			if err != nil {
				return a, fmt.Errorf("got shape %q of an array", shape)
			}
			if err := add(n); err != nil {
				return a, err
			}
		}
	} else {
		if len(value) < 1 {
			return a, short
		}
		dimensions, size := int(value[0]>>2), 1<<(value[0]&3)
		value = value[1:]
		if len(value) < dimensions*size {
			return a, short
		}
		for range dimensions {
			var d [8]byte
			copy(d[:size], value)
			value = value[size:]
			if err := add(binary.LittleEndian.Uint64(d[:])); err != nil {
				return a, err
			}
		}
	}
	if int64(len(value)) != want {
		return a, fmt.Errorf("got %d bytes of an array of shape %v and dtype %s, want %d", len(value), a.shape, a.dtype, want)
	}
	a.data = value
	return a, nil
}

// image reads the value of a column of images into an encoded image. Pixels become a PNG.
func (c *column) image(value []byte) ([]byte, error) {
	switch c.encoding {
	case "pil":
		return pilToPNG(value)
	case "ndarray":
		a, err := parseArray(c.args, value)
		if err != nil {
			return nil, err
		}
		return a.toPNG()
	}
	if len(value) == 0 {
		return nil, errors.New("the image has no bytes")
	}
	return value, nil
}

// pilToPNG encodes the pixels of an image of Pillow's: u32 width, height and length of the mode,
// the mode, the rows.
func pilToPNG(value []byte) ([]byte, error) {
	if len(value) < 12 {
		return nil, fmt.Errorf("got %d bytes of a Pillow image, want a head of 12", len(value))
	}
	width, height, n := binary.LittleEndian.Uint32(value), binary.LittleEndian.Uint32(value[4:]), binary.LittleEndian.Uint32(value[8:])
	if n > 16 || int(n) > len(value)-12 {
		return nil, fmt.Errorf("got a Pillow mode of %d characters", n)
	}
	mode, pixels := string(value[12:12+n]), value[12+n:]
	channels := map[string]int{"L": 1, "RGB": 3, "RGBA": 4}[mode]
	if channels == 0 {
		return nil, fmt.Errorf("got a Pillow image of mode %q, want L, RGB or RGBA", mode)
	}
	return toPNG(pixels, int64(width), int64(height), channels, int64(channels), 1)
}

// toPNG encodes an array of shape (H, W), (H, W, C) or (C, H, W).
func (a *array) toPNG() ([]byte, error) {
	if a.dtype != "uint8" {
		return nil, fmt.Errorf("got an image of dtype %s, want uint8", a.dtype)
	}
	s := a.shape
	switch {
	case len(s) == 2:
		return toPNG(a.data, s[1], s[0], 1, 1, 1)
	case len(s) == 3 && (s[2] == 1 || s[2] == 3 || s[2] == 4):
		return toPNG(a.data, s[1], s[0], int(s[2]), s[2], 1)
	case len(s) == 3 && (s[0] == 1 || s[0] == 3):
		return toPNG(a.data, s[2], s[1], int(s[0]), 1, s[1]*s[2])
	}
	return nil, fmt.Errorf("got an image of shape %v, want (H, W), (H, W, C) or (C, H, W)", s)
}

// toPNG encodes pixels without compressing them. Neighbours and channels of a pixel are so many
// bytes apart.
func toPNG(pixels []byte, width, height int64, channels int, neighbour, channel int64) ([]byte, error) {
	if width < 1 || height < 1 || width > maxShard || height > maxShard || width > maxShard/int64(channels)/height || int64(len(pixels)) != width*height*int64(channels) {
		return nil, fmt.Errorf("got %d bytes of an image of %d×%d pixels with %d bytes each", len(pixels), width, height, channels)
	}
	bounds := image.Rect(0, 0, int(width), int(height))
	var img image.Image
	if channels == 1 {
		img = &image.Gray{Pix: pixels, Stride: int(width), Rect: bounds}
	} else {
		out := image.NewNRGBA(bounds)
		for k := range width * height {
			p, o := k*neighbour, 4*k
			for c := range int64(channels) {
				out.Pix[o+c] = pixels[p+c*channel]
			}
			if channels == 3 {
				out.Pix[o+3] = 255
			}
		}
		img = out
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, img); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
