package decode

import (
	"image"
	"sync"

	"github.com/paragon-train/paragon/data/internal/jpeg"
	"github.com/paragon-train/paragon/data/internal/pixel"
	"github.com/paragon-train/paragon/data/transform"
)

// A jpegDecoder decodes a JPEG and converts its planes. It keeps its memory, and belongs to one
// goroutine at a time.
type jpegDecoder struct {
	jpeg.Decoder

	// rows has a row of each component, with a sample for each pixel.
	rows [4][]uint8
}

var jpegDecoders = sync.Pool{New: func() any { return new(jpegDecoder) }}

// decode decodes the part r of the image whose header was read.
func (d *jpegDecoder) decode(dst *transform.Image, r image.Rectangle, channels int) error {
	if err := d.Decode(jpeg.Part{Left: r.Min.X, Top: r.Min.Y, Width: r.Dx(), Height: r.Dy()}); err != nil {
		return err
	}
	room(dst, r.Dx(), r.Dy(), channels)
	need := d.Width + 16
	if cap(d.rows[0]) < need {
		for i := range d.rows {
			d.rows[i] = make([]uint8, need)
		}
	}
	luminance := channels == 1 && (d.Color == jpeg.Grey || d.Color == jpeg.YCbCr)
	var rows [4][]uint8
	for y := r.Min.Y; y < r.Max.Y; y++ {
		out := dst.Pix[(y-r.Min.Y)*r.Dx()*channels:][:r.Dx()*channels]
		for i := range d.Planes {
			rows[i] = d.row(i, r.Min.X, r.Max.X, y)
			if luminance {
				break
			}
		}
		switch {
		case luminance:
			copy(out, rows[0])
		case channels == 1:
			d.greyRow(out, &rows)
		default:
			d.colorRow(out, &rows)
		}
	}
	return nil
}

// row returns the samples of component i for the pixels from left to right of row y. Where libjpeg
// smooths it does, too: samples that serve two pixels in either direction or in both, where a row
// has more than two of them.
func (d *jpegDecoder) row(i, left, right, y int) []uint8 {
	p := &d.Planes[i]
	in := p.Pix[y/p.Down*p.Stride:][:p.Width]
	if p.Across == 1 && p.Down == 1 {
		return in[left:right]
	}
	first, last := left/p.Across, (right-1)/p.Across
	out := d.rows[i][:(last-first+1)*p.Across]
	// near is the row of samples on the other side of pixel row y.
	near := in
	if p.Down == 2 {
		other := min(max(y/2-1+y%2*2, 0), p.Height-1)
		near = p.Pix[other*p.Stride:][:p.Width]
	}
	switch {
	case p.Across == 1 && p.Down == 2:
		bias := uint32(1 + y%2)
		in, near := in[first:last+1], near[first:last+1]
		for x, v := range in {
			out[x] = uint8((uint32(v)*3 + uint32(near[x]) + bias) >> 2)
		}
	case p.Across == 2 && p.Down == 1 && p.Width > 2:
		before := int32(in[max(first-1, 0)])
		for x := first; x <= last; x++ {
			v, after := int32(in[x]), int32(in[min(x+1, p.Width-1)])
			pair := out[(x-first)*2:][:2]
			pair[0], pair[1] = uint8((3*v+before+1)>>2), uint8((3*v+after+2)>>2)
			before = v
		}
	case p.Across == 2 && p.Down == 2 && p.Width > 2:
		// At an end of the row a sample is its own neighbour.
		from, to := first, last+1
		if from == 0 {
			ends := [3]uint8{in[0], in[0], in[1]}
			nears := [3]uint8{near[0], near[0], near[1]}
			pixel.Smooth(out, ends[:], nears[:])
			from = 1
		}
		if n := p.Width; to == n {
			ends := [3]uint8{in[n-2], in[n-1], in[n-1]}
			nears := [3]uint8{near[n-2], near[n-1], near[n-1]}
			pixel.Smooth(out[(n-1-first)*2:], ends[:], nears[:])
			to--
		}
		if from < to {
			pixel.Smooth(out[(from-first)*2:], in[from-1:to+1], near[from-1:to+1])
		}
	default:
		for x := range out {
			out[x] = in[first+x/p.Across]
		}
	}
	return out[left-first*p.Across:][:right-left]
}

// colorRow makes red, green and blue of a row of each component.
func (d *jpegDecoder) colorRow(out []uint8, rows *[4][]uint8) {
	switch d.Color {
	case jpeg.Grey:
		for x, v := range rows[0] {
			p := out[x*3:][:3]
			p[0], p[1], p[2] = v, v, v
		}
	case jpeg.YCbCr:
		pixel.Convert(out, rows[0], rows[1], rows[2])
	case jpeg.RGB:
		r, g, b := rows[0], rows[1][:len(rows[0])], rows[2][:len(rows[0])]
		for x := range r {
			p := out[x*3:][:3]
			p[0], p[1], p[2] = r[x], g[x], b[x]
		}
	case jpeg.CMYK:
		for x := range rows[0] {
			light := uint32(rows[3][x])
			p := out[x*3:][:3]
			p[0], p[1], p[2] = leave(light, 255-rows[0][x]), leave(light, 255-rows[1][x]), leave(light, 255-rows[2][x])
		}
	case jpeg.YCCK:
		pixel.Convert(out, rows[0], rows[1], rows[2])
		for x, k := range rows[3] {
			light := uint32(k)
			p := out[x*3:][:3]
			p[0], p[1], p[2] = leave(light, p[0]), leave(light, p[1]), leave(light, p[2])
		}
	}
}

// leave is what an ink leaves of the light that black leaves, as Pillow rounds it.
func leave(light uint32, ink uint8) uint8 {
	t := uint32(ink)*light + 128
	return uint8(light - (t>>8+t)>>8)
}

// greyRow makes luminance of the colours of a row.
func (d *jpegDecoder) greyRow(out []uint8, rows *[4][]uint8) {
	colors := make([]uint8, 3*len(out))
	d.colorRow(colors, rows)
	toGrey(out, colors)
}

// toGrey makes the luminance of colours, by ITU-R 601 as Pillow rounds it.
func toGrey(out, colors []uint8) {
	for x := range out {
		p := colors[x*3:][:3]
		out[x] = uint8((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 1<<15) >> 16)
	}
}
