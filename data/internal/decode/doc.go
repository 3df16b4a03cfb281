// Package decode turns encoded images into pixels, as Pillow's open and convert("RGB") do.
//
// JPEG, PNG and PGM/PPM are built in; what else is registered with image.RegisterFormat is read,
// too: WebP, BMP and TIFF come with the packages of golang.org/x/image. The content says what an
// image is, not its name.
//
// A JPEG's pixels are those of Pillow with libjpeg-turbo, bit for bit: package jpeg gives its
// planes, and here chroma that has fewer samples is smoothed by libjpeg's triangle filter and
// colours are computed in its integers. They do not depend on the release of Go; the standard
// library's decoder has other pixels since 1.26.
//
// Where Pillow has no one answer: 16-bit samples keep their upper 8 bits, and alpha is dropped.
package decode

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io"
	"math/rand/v2"

	"github.com/paragon-train/paragon/data/internal/jpeg"
	"github.com/paragon-train/paragon/data/transform"
)

// DefaultMaxPixels is how many pixels an image may have: those that Pillow takes without a warning.
const DefaultMaxPixels = 89_478_485

// A Config says how images are decoded.
type Config struct {
	// Channels is 3 for red, green and blue, or 1 for grey. Zero is 3.
	Channels int
	// MaxPixels is how many pixels an image may have; a larger one is an error before memory is
	// taken for it. Zero is DefaultMaxPixels.
	MaxPixels int
	// Orient turns a JPEG as its EXIF orientation says. Without it the pixels are taken as they
	// are stored, as Pillow, torchvision and TensorFlow do.
	Orient bool
}

// Validate names the field that is wrong.
func (c Config) Validate() error {
	if c.Channels != 0 && c.Channels != 1 && c.Channels != 3 {
		return fmt.Errorf("decode: Config.Channels: got %d, want 1 or 3", c.Channels)
	}
	if c.MaxPixels < 0 {
		return fmt.Errorf("decode: Config.MaxPixels: got %d, want 0 or more", c.MaxPixels)
	}
	return nil
}

// Fingerprint names what determines the pixels besides the encoded bytes. Equal fingerprints decode
// to equal pixels.
func Fingerprint() string { return "decode 2" }

// ErrTooLarge says that an image has more pixels than Config.MaxPixels.
var ErrTooLarge = errors.New("too many pixels")

// ErrFormat says that the bytes are no image of a format that is known.
var ErrFormat = image.ErrFormat

// Image decodes an image; an *Error says that it cannot be. Its pixels are written into the memory
// of dst, which it returns; a nil dst is a new image. An image that is cut short is an error,
// whatever could be shown of it.
func Image(dst *transform.Image, encoded []byte, cfg Config) (*transform.Image, error) {
	return decode(dst, encoded, cfg, nil)
}

// Transform is Image followed by transforms, whose errors are no *Error. It gives the same pixels
// in less time: if the first transform is a Cropper, only the part that it takes is decoded. What
// is damaged in a JPEG below that part is not seen, unless the image is cut short.
func Transform(dst *transform.Image, encoded []byte, cfg Config, transforms []transform.Transform, draw *rand.Rand) (*transform.Image, error) {
	var cropper transform.Cropper
	var part func(width, height int) (image.Rectangle, error)
	if len(transforms) > 0 {
		if c, ok := transforms[0].(transform.Cropper); ok {
			cropper = c
			part = func(width, height int) (image.Rectangle, error) { return c.Part(width, height, draw) }
		}
	}
	img, err := decode(dst, encoded, cfg, part)
	if err != nil {
		return nil, err
	}
	if cropper != nil {
		if img, err = cropper.ApplyToPart(img); err != nil {
			return nil, err
		}
		transforms = transforms[1:]
	}
	for _, t := range transforms {
		if img, err = t.Apply(img, draw); err != nil {
			return nil, err
		}
	}
	return img, nil
}

// decode decodes the part of an image that part names, all of it if part is nil.
func decode(dst *transform.Image, encoded []byte, cfg Config, part func(width, height int) (image.Rectangle, error)) (*transform.Image, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Channels == 0 {
		cfg.Channels = 3
	}
	if cfg.MaxPixels == 0 {
		cfg.MaxPixels = DefaultMaxPixels
	}
	if dst == nil {
		dst = new(transform.Image)
	}
	var d *jpegDecoder
	if isJPEG(encoded) {
		d = jpegDecoders.Get().(*jpegDecoder)
		defer jpegDecoders.Put(d)
	}
	format, size, err := inspect(encoded, d)
	if err == nil {
		err = checkSize(size, cfg.MaxPixels)
	}
	if err != nil {
		return nil, failure(format, encoded, err)
	}
	turned := 1
	if cfg.Orient && format == "jpeg" {
		turned = orientation(encoded)
	}
	whole := image.Rectangle{Max: size}
	if format == "jpeg" && turned == 1 && part != nil {
		r, err := part(size.X, size.Y)
		if err != nil {
			return nil, err
		}
		whole, part = r, nil
	}
	if format == "jpeg" {
		err = d.decode(dst, whole, cfg.Channels)
	} else {
		err = decodeOther(dst, encoded, format, cfg.Channels)
	}
	if err != nil {
		return nil, failure(format, encoded, err)
	}
	orient(dst, turned)
	if part != nil {
		r, err := part(dst.Width, dst.Height)
		if err != nil {
			return nil, err
		}
		cut(dst, r)
	}
	return dst, nil
}

// checkSize is an error if an image has no pixels, or more than most.
func checkSize(size image.Point, most int) error {
	if size.X < 1 || size.Y < 1 {
		return fmt.Errorf("got %d×%d pixels, want at least 1×1", size.X, size.Y)
	}
	if size.Y > most/size.X {
		return fmt.Errorf("%w: got %d×%d, want at most %d in all", ErrTooLarge, size.X, size.Y, most)
	}
	return nil
}

// decodeOther decodes a whole image that is no JPEG.
func decodeOther(dst *transform.Image, encoded []byte, format string, channels int) error {
	if format == "pgm" || format == "ppm" {
		return decodePNM(dst, encoded, channels)
	}
	err := decodeRegistered(dst, encoded, format, channels)

	// The standard library reads no further than the last pixel.
	if format == "png" && !bytes.Contains(encoded, []byte("IEND")) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cut leaves the part r of an image.
func cut(img *transform.Image, r image.Rectangle) {
	n := r.Dx() * img.Channels
	for y := range r.Dy() {
		copy(img.Pix[y*n:][:n], img.Pix[((r.Min.Y+y)*img.Width+r.Min.X)*img.Channels:])
	}
	img.Width, img.Height = r.Dx(), r.Dy()
	img.Pix = img.Pix[:n*r.Dy()]
}

// Size returns the name of an image's format, and its width and height, from its first bytes.
func Size(encoded []byte) (format string, width, height int, err error) {
	var d *jpegDecoder
	if isJPEG(encoded) {
		d = jpegDecoders.Get().(*jpegDecoder)
		defer jpegDecoders.Put(d)
	}
	format, size, err := inspect(encoded, d)
	if err != nil {
		return "", 0, 0, failure(format, encoded, err)
	}
	return format, size.X, size.Y, nil
}

func isJPEG(encoded []byte) bool { return bytes.HasPrefix(encoded, []byte{0xff, 0xd8}) }

// inspect reads the format and the size; d reads a JPEG. After an error it names the format as far
// as that is known.
func inspect(encoded []byte, d *jpegDecoder) (string, image.Point, error) {
	if d != nil {
		h, err := d.ReadHeader(encoded)
		return "jpeg", image.Pt(h.Width, h.Height), err
	}
	if isPNM(encoded) {
		h, err := readPNMHeader(encoded)
		return map[int]string{1: "pgm", 3: "ppm"}[h.channels], image.Pt(h.width, h.height), err
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(encoded))
	if format == "" {
		format = magic(encoded)
	}
	return format, image.Pt(c.Width, c.Height), err
}

// magic names the format that the first bytes promise.
func magic(encoded []byte) string {
	for _, m := range []struct{ name, is string }{{"png", "\x89PNG"}, {"webp", "RIFF"}, {"bmp", "BM"}, {"gif", "GIF8"}, {"tiff", "II*\x00"}, {"tiff", "MM\x00*"}} {
		if bytes.HasPrefix(encoded, []byte(m.is)) {
			return m.name
		}
	}
	return ""
}

// An Error says that encoded bytes are no image that can be decoded, or are damaged.
type Error struct {
	// Format is as far as the first bytes tell, such as "jpeg"; empty if they do not.
	Format string
	// Bytes is how many were given.
	Bytes int
	// Err is what is wrong.
	Err error

	first [8]byte
}

func failure(format string, encoded []byte, err error) error {
	if len(encoded) == 0 || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	e := &Error{Format: format, Bytes: len(encoded), Err: err}
	copy(e.first[:], encoded)
	return e
}

func (e *Error) Error() string {
	switch known := !errors.Is(e.Err, image.ErrFormat); {
	case e.Bytes == 0:
		return "decode: got no bytes, want an image"
	case !known && e.Format == "":
		return fmt.Sprintf("decode: %d bytes that begin with % x: %v", e.Bytes, e.first[:min(8, e.Bytes)], e.Err)
	case !known:
		return fmt.Sprintf("decode: %s of %d bytes: %v: this format is read only by a program that imports a package for it", e.Format, e.Bytes, e.Err)
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("decode: %s of %d bytes is cut short: %v", e.Format, e.Bytes, e.Err)
	}
	return fmt.Sprintf("decode: %s of %d bytes: %v", e.Format, e.Bytes, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrUnsupported says that a JPEG is of a kind that is not read.
var ErrUnsupported = jpeg.ErrUnsupported

// room gives dst its size, with room for its pixels.
func room(dst *transform.Image, width, height, channels int) {
	dst.Width, dst.Height, dst.Channels = width, height, channels
	if n := width * height * channels; cap(dst.Pix) < n {
		dst.Pix = make([]uint8, n)
	} else {
		dst.Pix = dst.Pix[:n]
	}
}
