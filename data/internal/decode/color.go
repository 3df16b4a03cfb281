package decode

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	_ "image/png" // registers PNG
	"io"

	"github.com/paragon-train/paragon/data/transform"
)

// decodeRegistered decodes what the standard library has a decoder for.
func decodeRegistered(dst *transform.Image, encoded []byte, format string, channels int) error {
	m, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	if w < 1 || h < 1 {
		return io.ErrUnexpectedEOF
	}
	room(dst, w, h, channels)
	if m, ok := m.(*image.Gray); ok {
		fromGray(dst, m, channels)
		return nil
	}
	rgb := dst
	if channels == 1 {
		rgb = new(transform.Image)
		room(rgb, w, h, 3)
	}
	if err := toRGB(rgb, m, format); err != nil {
		return err
	}
	if channels == 1 {
		toGrey(dst.Pix, rgb.Pix)
	}
	return nil
}

// fromGray copies a grey image to one or three channels.
func fromGray(dst *transform.Image, m *image.Gray, channels int) {
	first := m.Bounds().Min
	w := dst.Width
	for y := range dst.Height {
		in := m.Pix[m.PixOffset(first.X, first.Y+y):][:w]
		if channels == 1 {
			copy(dst.Pix[y*w:], in)
			continue
		}
		out := dst.Pix[y*w*3:][:w*3]
		for x, v := range in {
			p := out[x*3:][:3]
			p[0], p[1], p[2] = v, v, v
		}
	}
}

// toRGB copies an image with colours, by way of the fastest loop for its type. WebP's brightness is
// of limited range, which the standard library does not say.
func toRGB(rgb *transform.Image, m image.Image, format string) error {
	switch m := m.(type) {
	case *image.YCbCr:
		if format == "webp" {
			fromLimited(rgb, m)
			return nil
		}
	case *image.NYCbCrA:
		if format == "webp" {
			fromLimited(rgb, &m.YCbCr)
			return nil
		}
	case *image.NRGBA:
		fromFour(rgb, m.Pix, m.Stride)
		return nil
	case *image.RGBA:
		if m.Opaque() {
			fromFour(rgb, m.Pix, m.Stride)
			return nil
		}
	case *image.Paletted:
		return fromPaletted(rgb, m)
	}
	fromAny(rgb, m)
	return nil
}

// fromFour takes three of each four bytes. The image is one that a decoder made: it begins at the
// first byte.
func fromFour(dst *transform.Image, pix []uint8, stride int) {
	for y := range dst.Height {
		in := pix[y*stride:][:dst.Width*4]
		out := dst.Pix[y*dst.Width*3:][:dst.Width*3]
		for x := range dst.Width {
			copy(out[x*3:][:3], in[x*4:][:3])
		}
	}
}

// fromPaletted looks each pixel up. A palette's alpha is dropped.
func fromPaletted(dst *transform.Image, m *image.Paletted) error {
	var table [256][3]uint8
	for i, c := range m.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		table[i] = [3]uint8{n.R, n.G, n.B}
	}
	for y := range dst.Height {
		in := m.Pix[y*m.Stride:][:dst.Width]
		out := dst.Pix[y*dst.Width*3:][:dst.Width*3]
		for x, i := range in {
			if int(i) >= len(m.Palette) {
				return fmt.Errorf("pixel (%d, %d): got color %d, want one of %d in the palette", x, y, i, len(m.Palette))
			}
			*(*[3]uint8)(out[x*3:]) = table[i]
		}
	}
	return nil
}

// fromAny asks for each colour. It serves 16-bit images and formats that others registered.
func fromAny(dst *transform.Image, m image.Image) {
	b := m.Bounds()
	for y := range dst.Height {
		out := dst.Pix[y*dst.Width*3:][:dst.Width*3]
		for x := range dst.Width {
			n := color.NRGBA64Model.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA64)
			p := out[x*3:][:3]
			p[0], p[1], p[2] = uint8(n.R>>8), uint8(n.G>>8), uint8(n.B>>8)
		}
	}
}
