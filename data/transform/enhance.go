package transform

import "math"

// This file has Pillow's changes of colour: ImageEnhance, ImageOps and the HSV of convert.

// grey is the luminance of a colour, by ITU-R 601, in 16 fraction bits.
func grey(r, g, b uint8) uint8 {
	return uint8((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 1<<15) >> 16)
}

// blend moves from one value towards the other: 0 is from, 1 is to, and what lies outside of 0 and
// 1 leads on beyond them. The product is rounded to float32 before the sum, on every processor.
func blend(from, to uint8, f float32) uint8 {
	v := float32(from) + float32(f*float32(int32(to)-int32(from)))
	return uint8(min(255, max(0, v)))
}

// blendTable has blend for each value, from one value.
func blendTable(from uint8, f float32) (table [256]uint8) {
	for i := range table {
		table[i] = blend(from, uint8(i), f)
	}
	return table
}

func (img *Image) look(table *[256]uint8) {
	for i, p := range img.Pix {
		img.Pix[i] = table[p]
	}
}

// brightness leads away from black.
func (img *Image) brightness(f float64) {
	table := blendTable(0, float32(f))
	img.look(&table)
}

// contrast leads away from the mean grey.
func (img *Image) contrast(f float64) {
	var sum uint64
	if img.Channels == 1 {
		for _, p := range img.Pix {
			sum += uint64(p)
		}
	} else {
		for i := 0; i+2 < len(img.Pix); i += 3 {
			p := img.Pix[i:][:3]
			sum += uint64(grey(p[0], p[1], p[2]))
		}
	}
	mean := uint8(float64(sum)/float64(img.Width*img.Height) + 0.5)
	table := blendTable(mean, float32(f))
	img.look(&table)
}

// color leads away from the grey of each pixel.
func (img *Image) color(f float64) {
	if img.Channels == 1 {
		return
	}
	factor := float32(f)
	for i := 0; i+2 < len(img.Pix); i += 3 {
		p := img.Pix[i:][:3]
		g := grey(p[0], p[1], p[2])
		p[0], p[1], p[2] = blend(g, p[0], factor), blend(g, p[1], factor), blend(g, p[2], factor)
	}
}

// desaturate makes every pixel grey.
func (img *Image) desaturate() {
	if img.Channels == 1 {
		return
	}
	for i := 0; i+2 < len(img.Pix); i += 3 {
		p := img.Pix[i:][:3]
		g := grey(p[0], p[1], p[2])
		p[0], p[1], p[2] = g, g, g
	}
}

// sharpness leads away from a blurred image, in which a pixel has 5/13 of itself and 1/13 of each
// of its eight neighbours. Pixels at the edge stay.
func (img *Image) sharpness(f float64) {
	factor := float32(f)
	if factor == 1 || img.Width < 3 || img.Height < 3 {
		return
	}
	c, n := img.Channels, img.Width*img.Channels
	// Two rows are kept as they were: the one above, and the one under way.
	r := resamplers.Get().(*resampler)
	defer resamplers.Put(r)
	r.between = grown(r.between, 2*n)
	above, this := r.between[:n], r.between[n:]
	copy(this, img.Pix[:n])
	for y := 1; y < img.Height-1; y++ {
		above, this = this, above
		row, below := img.Pix[y*n:][:n], img.Pix[(y+1)*n:][:n]
		copy(this, row)
		for x := c; x < n-c; x++ {
			sum := uint32(above[x-c]) + uint32(above[x]) + uint32(above[x+c]) + uint32(this[x-c]) + 5*uint32(this[x]) + uint32(this[x+c]) +
				uint32(below[x-c]) + uint32(below[x]) + uint32(below[x+c])
			row[x] = blend(uint8((2*sum+13)/26), this[x], factor)
		}
	}
}

// posterize keeps the upper bits of each value.
func (img *Image) posterize(bits int) {
	mask := ^uint8(0) << (8 - bits)
	for i := range img.Pix {
		img.Pix[i] &= mask
	}
}

// solarize turns round the values from threshold on.
func (img *Image) solarize(threshold float64) {
	for i, p := range img.Pix {
		if float64(p) >= threshold {
			img.Pix[i] = 255 - p
		}
	}
}

// histogram counts the values of a channel.
func (img *Image) histogram(channel int) (counts [256]int) {
	for i := channel; i < len(img.Pix); i += img.Channels {
		counts[img.Pix[i]]++
	}
	return counts
}

func (img *Image) lookChannel(channel int, table *[256]uint8) {
	for i := channel; i < len(img.Pix); i += img.Channels {
		img.Pix[i] = table[img.Pix[i]]
	}
}

// autoContrast stretches each channel so that its least value is 0 and its largest 255.
func (img *Image) autoContrast() {
	for c := range img.Channels {
		counts := img.histogram(c)
		least, largest := 0, 255
		for least < 255 && counts[least] == 0 {
			least++
		}
		for largest > 0 && counts[largest] == 0 {
			largest--
		}
		if largest <= least {
			continue
		}
		scale := 255 / float64(largest-least)
		offset := float64(-float64(least) * scale)
		var table [256]uint8
		for i := range table {
			table[i] = uint8(min(255, max(0, int(float64(float64(i)*scale)+offset))))
		}
		img.lookChannel(c, &table)
	}
}

// equalize spreads each channel so that its values are about equally frequent.
func (img *Image) equalize() {
	for c := range img.Channels {
		counts := img.histogram(c)
		kinds, sum, last := 0, 0, 0
		for _, n := range counts {
			if n > 0 {
				kinds, sum, last = kinds+1, sum+n, n
			}
		}
		step := (sum - last) / 255
		if kinds <= 1 || step == 0 {
			continue
		}
		var table [256]uint8
		n := step / 2
		for i := range table {
			table[i] = uint8(min(255, n/step))
			n += counts[i]
		}
		img.lookChannel(c, &table)
	}
}

// hue turns the hue by f of the whole circle.
func (img *Image) hue(f float64) {
	if img.Channels == 1 {
		return
	}
	turn := uint8(int32(f * 255))
	for i := 0; i+2 < len(img.Pix); i += 3 {
		p := (*[3]uint8)(img.Pix[i:])
		h, s, v := toHSV(p[0], p[1], p[2])
		p[0], p[1], p[2] = fromHSV(h+turn, s, v)
	}
}

func toHSV(r, g, b uint8) (h, s, v uint8) {
	largest, least := max(r, g, b), min(r, g, b)
	if largest == least {
		return 0, 0, largest
	}
	span := float32(largest - least)
	rc, gc, bc := float32(largest-r)/span, float32(largest-g)/span, float32(largest-b)/span
	var turn float32
	switch largest {
	case r:
		turn = bc - gc
	case g:
		turn = float32(2 + float64(rc) - float64(bc))
	default:
		turn = float32(4 + float64(gc) - float64(rc))
	}
	turn = float32(math.Mod(float64(turn)/6+1, 1))
	saturation := span / float32(largest)
	return uint8(float64(turn) * 255), uint8(float64(saturation) * 255), largest
}

func fromHSV(h, s, v uint8) (r, g, b uint8) {
	if s == 0 {
		return v, v, v
	}
	sixth := math.Floor(float64(float32(h)) * 6 / 255)
	f := float64(float32(float64(float32(h))*6/255 - float64(float32(sixth))))
	fs := float64(float32(float64(float32(s)) / 255))
	p := uint8(math.Round(float64(v) * (1 - fs)))
	q := uint8(math.Round(float64(v) * (1 - float64(fs*f))))
	t := uint8(math.Round(float64(v) * (1 - float64(fs*(1-f)))))
	switch int(sixth) % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	}
	return v, p, q
}
