package f32

const (
	portableRows = 4
	portableCols = 8
)

// gatherPortable keeps one row of two columns by four in registers at a time.
func gatherPortable(a *GatherArgs, n, ncols int) {
	for i := range n {
		out := a.Out[a.OutRow[i]:]
		for j := 0; j < ncols; j += 4 {
			var s0, s1, s2, s3 float32
			for _, seg := range a.Segments {
				in := a.In[a.InRow[i]+seg.In:][:seg.Len]
				w := a.W[seg.W+j:]
				w = w[:(seg.Len-1)*portableCols+4]
				for k, v := range in {
					r := w[k*portableCols : k*portableCols+4 : k*portableCols+4]
					s0 += v * r[0]
					s1 += v * r[1]
					s2 += v * r[2]
					s3 += v * r[3]
				}
			}
			s := [4]float32{s0, s1, s2, s3}
			for q := range min(4, ncols-j) {
				if a.Add != 0 {
					out[j+q] += s[q]
				} else {
					out[j+q] = s[q]
				}
			}
		}
	}
}

func outerPortable(a *OuterArgs, rows int) {
	var sum [portableRows][portableCols]float32
	for _, p := range a.Pairs {
		x := a.A[p[0]:][:rows]
		y := (*[portableCols]float32)(a.B[p[1]:])
		for i, v := range x {
			s := &sum[i]
			for j := range y {
				s[j] += v * y[j]
			}
		}
	}
	for i := range rows {
		out := a.Out[i*portableCols:][:portableCols]
		for j, v := range sum[i] {
			if a.Add != 0 {
				v += out[j]
			}
			out[j] = v
		}
	}
}

// transposePortable moves columns m0 to m of rows n0 to n.
func transposePortable(a *TransposeArgs, n0, m0, n, m int) {
	for j := m0; j < m; j++ {
		if a.DstRow[j] < 0 {
			continue
		}
		dst := a.Dst[a.DstRow[j]:][:n]
		for i := n0; i < n; i++ {
			dst[i] = a.Src[a.SrcRow[i]+j]
		}
	}
}

// transposeShiftPortable is transposePortable with a shift, and a least value.
func transposeShiftPortable(a *TransposeArgs, n0, m0, n, m int, shift []float32, floor float32) {
	transposePortable(a, n0, m0, n, m)
	for j := m0; j < m; j++ {
		if a.DstRow[j] < 0 {
			continue
		}
		dst := a.Dst[a.DstRow[j]:][:n]
		for i := n0; i < n; i++ {
			v := dst[i]
			if shift != nil {
				v += shift[i]
			}
			if v < floor {
				v = floor
			}
			dst[i] = v
		}
	}
}

func copyRowsPortable(dst []float32, dstStride int, src []float32, srcStride, rows, n, width int) {
	for i := range rows {
		from, to := src[i*srcStride:][:n], dst[i*dstStride:][:width]
		if n > 8 {
			copy(to, from)
		} else { // faster than a call
			for j, v := range from { //nolint:staticcheck // copy is a call
				to[j] = v
			}
		}
		clear(to[n:])
	}
}

var portable = kernelSet{
	add: addPortable, mul: mulPortable, axpy: axpyPortable, axpby: axpbyPortable, scale: scalePortable, divide: dividePortable,
	sum: sumPortable, dot: dotPortable, max: maxPortable, relu: reluPortable, reluGrad: reluGradPortable, maxWhich: maxWhichPortable,
	toFloat16: toFloat16Portable, fromFloat16: fromFloat16Portable,
	toBFloat16: toBFloat16Portable, fromBFloat16: fromBFloat16Portable,
	encode2Bit: encode2BitPortable, addDecoded2Bit: addDecoded2BitPortable,
	encode1Bit: encode1BitPortable, addDecoded1Bit: addDecoded1BitPortable,
	collect: collectPortable,
	tile:    Tile{Rows: portableRows, Cols: portableCols, OuterRows: []int{portableRows}, path: Portable},
}
