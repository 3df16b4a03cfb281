package jpeg

// refine reads what a scan of a progressive image says of one block.
func (d *Decoder) refine(c *component, block *[64]int16) error {
	switch {
	case d.spectralStart == 0 && d.approxHigh == 0:
		dc, err := d.readDC(c)
		if err != nil {
			return err
		}
		block[0] = dc << d.approxLow
		return nil
	case d.spectralStart == 0:
		block[0] |= int16(d.in.take(1) << d.approxLow)
		return nil
	case d.approxHigh == 0:
		return d.firstAC(c, block)
	}
	return d.refineAC(c, block)
}

// firstAC reads the upper bits of some coefficients.
func (d *Decoder) firstAC(c *component, block *[64]int16) error {
	if d.eobRun > 0 {
		d.eobRun--
		return nil
	}
	t := &d.tables[1][c.ac]
	for k := d.spectralStart; k <= d.spectralEnd; k++ {
		run, size, value, ok := d.in.next(t)
		if !ok {
			return d.damaged("got no code of AC table %d", c.ac)
		}
		if size == 0 {
			if run != 15 {
				// A run of 2^run blocks, and some more, has no more coefficients.
				d.eobRun = 1<<run - 1
				if run > 0 {
					d.eobRun += d.in.take(uint(run))
				}
				return nil
			}
			k += 15
			continue
		}
		if k += run; k > d.spectralEnd {
			return d.damaged("a block has more coefficients than its scan")
		}
		block[zigzag[k&63]] = int16(value << d.approxLow)
	}
	return nil
}

// refineAC reads one more bit of the coefficients that are not zero, and which ones of the others
// are now.
func (d *Decoder) refineAC(c *component, block *[64]int16) error {
	t := &d.tables[1][c.ac]
	bit := int16(1) << d.approxLow
	k := d.spectralStart
	if d.eobRun == 0 {
		for k <= d.spectralEnd {
			run, size, value, ok := d.in.next(t)
			if !ok || size > 1 {
				return d.damaged("got no code of AC table %d for one bit", c.ac)
			}
			if size == 0 && run != 15 {
				d.eobRun = 1 << run
				if run > 0 {
					d.eobRun += d.in.take(uint(run))
				}
				break
			}
			k = d.refineRun(block, k, run, bit)
			if size > 0 {
				if k > d.spectralEnd {
					return d.damaged("a block has more coefficients than its scan")
				}
				block[zigzag[k&63]] = int16(value) * bit
			}
			k++
		}
	}
	if d.eobRun > 0 {
		d.refineRun(block, k, 64, bit)
		d.eobRun--
	}
	return nil
}

// refineRun reads a bit for each coefficient from k on that is not zero, and returns the place
// after run zeros that stay.
func (d *Decoder) refineRun(block *[64]int16, k, run int, bit int16) int {
	for ; k <= d.spectralEnd; k++ {
		v := &block[zigzag[k&63]]
		if *v == 0 {
			if run == 0 {
				break
			}
			run--
			continue
		}
		if d.in.take(1) == 1 && *v&bit == 0 {
			if *v > 0 {
				*v += bit
			} else {
				*v -= bit
			}
		}
	}
	return k
}
