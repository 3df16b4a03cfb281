package jpeg

// zigzag is the place in a block of each coefficient in the order of the codes.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
}

// readDC reads the difference to the block before, and returns the sum.
func (d *Decoder) readDC(c *component) (int16, error) {
	run, _, diff, ok := d.in.next(&d.tables[0][c.dc])
	if !ok || run != 0 {
		return 0, d.damaged("got no code of DC table %d", c.dc)
	}
	c.last += int16(diff)
	return c.last, nil
}

// sequential reads a whole block into d.block, which was zero, and multiplies by the quantization
// table. It returns the last coefficient that is not zero, in the order of the codes.
func (d *Decoder) sequential(c *component) (last int, err error) {
	dc, err := d.readDC(c)
	if err != nil {
		return 0, err
	}
	quant := &d.quant[c.quant]
	d.block[0] = dc * int16(quant[0])
	t, b := &d.tables[1][c.ac], &d.in
	acc, n := b.acc, b.n
	for k := 1; k < 64; k++ {
		if n < 32 {
			b.acc, b.n = acc, n
			b.fill()
			acc, n = b.acc, b.n
		}
		e := t.look[acc>>(64-lookBits)]
		if e&hasValue != 0 {
			acc <<= e & 63
			n -= int(e & 63)
			if k += int(e >> 8 & 15); k > 63 {
				return 0, d.damaged("a block has more than 64 coefficients")
			}
			d.block[zigzag[k&63]] = int16(e>>16) * int16(quant[k&63])
			last = k
			continue
		}
		if e == 0 {
			if e = t.long(acc); e == 0 {
				return 0, d.damaged("got no code of AC table %d", c.ac)
			}
		}
		acc <<= e & 63
		n -= int(e & 63)
		run, size := int(e>>8&15), uint(e>>12&15)
		if size == 0 {
			if run != 15 {
				break // the end of the block
			}
			k += 15
			continue
		}
		if k += run; k > 63 {
			return 0, d.damaged("a block has more than 64 coefficients")
		}
		d.block[zigzag[k&63]] = int16(extend(int(acc>>(64-size)), size)) * int16(quant[k&63])
		last = k
		acc <<= size
		n -= int(size)
	}
	b.acc, b.n = acc, n
	return last, nil
}

// skip reads a whole block that is not needed.
func (d *Decoder) skip(c *component) error {
	if _, err := d.readDC(c); err != nil {
		return err
	}
	t, b := &d.tables[1][c.ac], &d.in
	acc, n := b.acc, b.n
	for k := 1; k < 64; k++ {
		if n < 32 {
			b.acc, b.n = acc, n
			b.fill()
			acc, n = b.acc, b.n
		}
		e := t.look[acc>>(64-lookBits)]
		if e == 0 {
			if e = t.long(acc); e == 0 {
				return d.damaged("got no code of AC table %d", c.ac)
			}
		}
		acc <<= e & 63
		n -= int(e & 63)
		run, size := int(e>>8&15), uint(e>>12&15)
		if size == 0 && run != 15 {
			break
		}
		if k += run; k > 63 {
			return d.damaged("a block has more than 64 coefficients")
		}
		if e&hasValue == 0 {
			acc <<= size
			n -= int(size)
		}
	}
	b.acc, b.n = acc, n
	return nil
}
