package f32

import "fmt"

// Sums over the rows of a channel-last array are taken in float32 over groups of groupRows rows and
// then in float64 over groups, so that mean and variance stay exact to about 1e-6 however many rows
// there are.
const (
	groupRows = 128

	// maxChannels is how many channels are summed at a time: the float32 partial sums live on the
	// stack.
	maxChannels = 256
)

func checkChannels(op string, c int, lens ...int) {
	if c == 0 || lens[0]%c != 0 {
		panic(fmt.Sprintf("f32: %s: %d values are no rows of %d channels", op, lens[0], c))
	}
	same(op, lens[0], lens...)
}

// ChannelSums adds Σ x to sum and Σ x² to sumSq, for each of the len(sum) channels, over the rows
// of x.
func ChannelSums(sum, sumSq []float64, x []float32) { sumChannels("ChannelSums", sum, sumSq, x) }

func sumChannels[E element](op string, sum, sumSq []float64, x []E) {
	c := len(sum)
	checkChannels2(op, c, len(x), len(x), len(x))
	same2(op, c, len(sumSq), len(sumSq))
	var a, b [maxChannels]float32
	for len(x) > 0 {
		n := min(len(x), groupRows*c)
		for c0 := 0; c0 < c; c0 += maxChannels {
			w := min(c-c0, maxChannels)
			clear(a[:w])
			clear(b[:w])
			channelSums(kernels.tile.path, a[:w], b[:w], x[c0:n], c)
			addGroup(sum[c0:], sumSq[c0:], a[:w], b[:w])
		}
		x = x[n:]
	}
}

// addGroup adds the sums of a group of rows.
func addGroup(sum, other []float64, a, b []float32) {
	for i := range a {
		sum[i] += float64(a[i])
		other[i] += float64(b[i])
	}
}

// ChannelSumsAround adds Σ (x − center) to sum and Σ (x − center)² to sumSq, for each channel. With
// a center near the mean, the variance sumSq/m − (sum/m)² loses nothing where the mean is large
// against the deviation, as that of ChannelSums does.
func ChannelSumsAround(sum, sumSq []float64, x, center []float32) {
	sumChannelsAround("ChannelSumsAround", sum, sumSq, x, center)
}

func sumChannelsAround[E element](op string, sum, sumSq []float64, x []E, center []float32) {
	c := len(sum)
	checkChannels2(op, c, len(x), len(x), len(x))
	same2(op, c, len(sumSq), len(center))
	var a, b [maxChannels]float32
	for len(x) > 0 {
		n := min(len(x), groupRows*c)
		for c0 := 0; c0 < c; c0 += maxChannels {
			w := min(c-c0, maxChannels)
			clear(a[:w])
			clear(b[:w])
			channelSumsAround(kernels.tile.path, a[:w], b[:w], x[c0:n], center[c0:c0+w], c)
			addGroup(sum[c0:], sumSq[c0:], a[:w], b[:w])
		}
		x = x[n:]
	}
}

// ChannelGradSums is the reduction of batch normalisation's backward pass. With dz = ReLUGrad of dy
// and y (dz = dy if y is nil), it adds Σ dz to sumDy and Σ dz·(x − center) to sumDyX, for each
// channel.
func ChannelGradSums(sumDy, sumDyX []float64, dy, x, y, center []float32) {
	sumChannelGrads("ChannelGradSums", sumDy, sumDyX, dy, x, y, center)
}

func sumChannelGrads[E element](op string, sumDy, sumDyX []float64, dy, x, y []E, center []float32) {
	c := len(sumDy)
	if y == nil {
		checkChannels2(op, c, len(dy), len(x), len(dy))
	} else {
		checkChannels2(op, c, len(dy), len(x), len(y))
	}
	same2(op, c, len(sumDyX), len(center))
	var a, b [maxChannels]float32
	for len(dy) > 0 {
		n := min(len(dy), groupRows*c)
		for c0 := 0; c0 < c; c0 += maxChannels {
			w := min(c-c0, maxChannels)
			clear(a[:w])
			clear(b[:w])
			var ys []E
			if y != nil {
				ys = y[c0:n]
			}
			channelGradSums(kernels.tile.path, a[:w], b[:w], dy[c0:n], x[c0:n], ys, center[c0:c0+w], c)
			addGroup(sumDy[c0:], sumDyX[c0:], a[:w], b[:w])
		}
		dy, x = dy[n:], x[n:]
		if y != nil {
			y = y[n:]
		}
	}
}

// ScaleShift sets y = x·scale + shift for each channel, and then ReLU of that if relu.
func ScaleShift(y, x, scale, shift []float32, relu bool) {
	checkChannels2("ScaleShift", len(scale), len(y), len(x), len(x))
	same2("ScaleShift", len(scale), len(shift), len(shift))
	scaleShift(kernels.tile.path, y, x, nil, scale, shift, relu)
}

// ScaleShiftAdd sets y = x·scale + shift + res for each channel, and then ReLU of that if relu.
func ScaleShiftAdd(y, x, res, scale, shift []float32, relu bool) {
	checkChannels2("ScaleShiftAdd", len(scale), len(y), len(x), len(res))
	same2("ScaleShiftAdd", len(scale), len(shift), len(shift))
	scaleShift(kernels.tile.path, y, x, res, scale, shift, relu)
}

// NormGrad is the last pass of batch normalisation's backward: with dz as in ChannelGradSums it
// sets dx = p·dz + q·x + r for each channel. For y = gamma·(x − mean)·istd + beta over m rows:
//
//	p = gamma·istd
//	q = −p·istd²·Σ dz·(x − mean) / m
//	r = −p·Σ dz / m − q·mean
func NormGrad(dx, dy, x, y, p, q, r []float32) { normGradOf("NormGrad", dx, dy, x, y, p, q, r) }

func normGradOf[E element](op string, dx, dy, x, y []E, p, q, r []float32) {
	if y == nil {
		checkChannels2(op, len(p), len(dx), len(dy), len(x))
	} else {
		checkChannels2(op, len(p), len(dx), len(dy), len(y))
	}
	same2(op, len(dx), len(x), len(x))
	same2(op, len(p), len(q), len(r))
	normGrad(kernels.tile.path, dx, dy, x, y, p, q, r)
}

func checkChannels2(op string, c, n, a, b int) {
	if c == 0 || n%c != 0 || a != n || b != n {
		checkChannels(op, c, n, a, b)
	}
}
