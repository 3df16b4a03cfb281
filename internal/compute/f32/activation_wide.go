//go:build amd64 || arm64

package f32

// The functions below return how many values they have done: all, or none on the portable path. The
// assembly does whole vectors. What is left over goes through it in a vector of its own, so that a
// value's result does not depend on where it stands.

const mostLanes = 16

func activateWide(path Path, f Function, dst, x []float32, slope float32) int {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0
	}
	n := len(dst) &^ (lanes - 1)
	if n > 0 {
		activateVectors(path, f, &dst[0], &x[0], slope, n)
	}
	if n < len(dst) {
		var room [mostLanes]float32
		copy(room[:], x[n:])
		activateVectors(path, f, &room[0], &room[0], slope, lanes)
		copy(dst[n:], room[:])
	}
	return len(dst)
}

func activateGradWide(path Path, f Function, dx, dy, kept []float32, slope float32) int {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0
	}
	n := len(dx) &^ (lanes - 1)
	if n > 0 {
		activateGradVectors(path, f, &dx[0], &dy[0], &kept[0], slope, n)
	}
	if n < len(dx) {
		var room, more [mostLanes]float32
		copy(room[:], dy[n:])
		copy(more[:], kept[n:])
		activateGradVectors(path, f, &room[0], &room[0], &more[0], slope, lanes)
		copy(dx[n:], room[:])
	}
	return len(dx)
}

func swigluWide(path Path, dst, gate, up []float32) int {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0
	}
	n := len(dst) &^ (lanes - 1)
	if n > 0 {
		swigluVectors(path, &dst[0], &gate[0], &up[0], n)
	}
	if n < len(dst) {
		var room, more [mostLanes]float32
		copy(room[:], gate[n:])
		copy(more[:], up[n:])
		swigluVectors(path, &room[0], &room[0], &more[0], lanes)
		copy(dst[n:], room[:])
	}
	return len(dst)
}

func swigluGradWide(path Path, dgate, dup, gate, up, dz []float32) int {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0
	}
	n := len(gate) &^ (lanes - 1)
	if n > 0 {
		swigluGradVectors(path, &dgate[0], &dup[0], &gate[0], &up[0], &dz[0], n)
	}
	if n < len(gate) {
		var g, u, z [mostLanes]float32
		copy(g[:], gate[n:])
		copy(u[:], up[n:])
		copy(z[:], dz[n:])
		swigluGradVectors(path, &g[0], &u[0], &g[0], &u[0], &z[0], lanes)
		copy(dgate[n:], g[:])
		copy(dup[n:], u[:])
	}
	return len(gate)
}

// farBelow fills a vector with numbers whose exponentials are 0.
func farBelow(room *[mostLanes]float32) {
	for i := range room {
		room[i] = negativeInfinity
	}
}

func expSumWide(path Path, dst, x []float32, shift float32) (sum float32, done int) {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0, 0
	}
	n := len(dst) &^ (lanes - 1)
	if n > 0 {
		sum = expSumVectors(path, &dst[0], &x[0], shift, n)
	}
	if n < len(dst) {
		var room [mostLanes]float32
		farBelow(&room)
		copy(room[:], x[n:])
		sum += expSumVectors(path, &room[0], &room[0], shift, lanes)
		copy(dst[n:], room[:])
	}
	return sum, len(dst)
}

func sumExpWide(path Path, x []float32, shift float32) (sum float32, done int) {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0, 0
	}
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		sum = sumExpVectors(path, &x[0], shift, n)
	}
	if n < len(x) {
		var room [mostLanes]float32
		farBelow(&room)
		copy(room[:], x[n:])
		sum += sumExpVectors(path, &room[0], shift, lanes)
	}
	return sum, len(x)
}

func scaledExpWide(path Path, dst, x []float32, shift, scale, offset float32) int {
	lanes := vectorLanes(path)
	if lanes == 0 {
		return 0
	}
	n := len(dst) &^ (lanes - 1)
	if n > 0 {
		scaledExpVectors(path, &dst[0], &x[0], shift, scale, offset, n)
	}
	if n < len(dst) {
		var room [mostLanes]float32
		copy(room[:], x[n:])
		scaledExpVectors(path, &room[0], &room[0], shift, scale, offset, lanes)
		copy(dst[n:], room[:])
	}
	return len(dst)
}

// widenWide and narrowWide are FromBFloat16 and ToBFloat16 of room on the stack.
func widenWide(path Path, dst []float32, x []uint16) {
	n := 0
	if lanes := vectorLanes(path); lanes > 0 {
		n = len(dst) &^ (lanes - 1)
	}
	if n > 0 {
		widenVectors(path, &dst[0], &x[0], n)
	}
	fromBFloat16Portable(dst[n:], x[n:])
}

func narrowWide(path Path, dst []uint16, x []float32) {
	n := 0
	if lanes := vectorLanes(path); lanes > 0 {
		n = len(dst) &^ (lanes - 1)
	}
	if n > 0 {
		narrowVectors(path, &dst[0], &x[0], n)
	}
	toBFloat16Portable(dst[n:], x[n:])
}
