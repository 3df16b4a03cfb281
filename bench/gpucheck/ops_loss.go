package main

import (
	"encoding/binary"
	"math"

	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
)

// softmax of rows.
func softmax(x []float64, classes int) []float64 {
	y := make([]float64, len(x))
	for at := 0; at < len(x); at += classes {
		top, sum := math.Inf(-1), 0.0
		for _, v := range x[at : at+classes] {
			top = max(top, v)
		}
		for i := at; i < at+classes; i++ {
			y[i] = math.Exp(x[i] - top)
			sum += y[i]
		}
		for i := at; i < at+classes; i++ {
			y[i] /= sum
		}
	}
	return y
}

var lossChecks = []opCheck{
	{"softmax", floats, func(o *opRun) error {
		const rows, classes = 9, 37
		x, xp := o.with(rows * classes)
		dy, dyp := o.with(rows * classes)
		y, dx := o.empty(o.t, len(x)), o.empty(o.t, len(x))
		if err := o.set.Softmax(o.s, o.t, rows, classes, y, xp); err != nil {
			return err
		}
		o.near("y", o.t, y, softmax(x, classes))
		got := o.get(o.t, y, len(x))
		if err := o.set.SoftmaxGrad(o.s, o.t, rows, classes, dx, y, dyp); err != nil {
			return err
		}
		want := make([]float64, len(x))
		for r := range rows {
			sum := 0.0
			for j := range classes {
				sum += dy[r*classes+j] * got[r*classes+j]
			}
			for i := r * classes; i < (r+1)*classes; i++ {
				want[i] = got[i] * (dy[i] - sum)
			}
		}
		o.near("gradient", o.t, dx, want)
		return nil
	}},
	{"cross-entropy", floats, func(o *opRun) error {
		for _, classes := range []int{10, 1000} {
			rows := 33
			if o.small {
				rows = 5
			}
			x, xp := o.with(rows * classes)
			labels := make([]float64, rows)
			for i := range labels {
				labels[i] = float64(i*7%(classes+1) - 1) // one is not there
			}
			bad := o.put(kernels.Int32, []float64{0})
			e := kernels.CrossEntropy{Type: o.t, Rows: rows, Classes: classes, X: xp, Labels: o.put(kernels.Int32, labels), Loss: o.empty(kernels.Float32, 1),
				DX: o.empty(o.t, len(x)), Bad: bad, Workspace: o.room(int64(4 * rows))}
			if err := o.set.CrossEntropy(o.s, e); err != nil {
				return err
			}
			y := softmax(x, classes)
			count, loss := 0.0, 0.0
			for r, l := range labels {
				if l >= 0 {
					count++
					loss -= math.Log(y[r*classes+int(l)])
				}
			}
			for i := range y {
				l := labels[i/classes]
				switch {
				case l < 0:
					y[i] = 0
				case i%classes == int(l):
					y[i]--
				}
				y[i] /= count
			}
			o.near("loss", kernels.Float32, e.Loss, []float64{loss / count})
			o.near("gradient", o.t, e.DX, y)
			o.exact("bad", kernels.Int32, bad, []float64{0})
		}
		return nil
	}},
	{"mean square error", floats, func(o *opRun) error {
		const scale = 4096 // float16 has no room for small numbers
		n := o.size(30001)
		x, xp := o.with(n)
		t, tp := o.with(n)
		loss, dx := o.empty(kernels.Float32, 1), o.empty(o.t, n)
		if err := o.set.MSE(o.s, o.t, int64(n), loss, xp, tp, o.room(o.set.MSEWorkspace())); err != nil {
			return err
		}
		if err := o.set.MSEGrad(o.s, o.t, int64(n), dx, xp, tp, 0, scale); err != nil {
			return err
		}
		sum, want := 0.0, make([]float64, n)
		for i := range x {
			sum += (x[i] - t[i]) * (x[i] - t[i]) / float64(n)
			want[i] = scale * 2 / float64(n) * (x[i] - t[i])
		}
		o.near("loss", kernels.Float32, loss, []float64{sum})
		o.near("gradient", o.t, dx, want)
		return nil
	}},
	{"dropout", floats, func(o *opRun) error {
		const n, c, hw, key = 3, 12, 35, 0x1234567890abcdef
		drop := &op.Dropout{Rate: 0.3}
		x, xp := o.with(n * c * hw)
		y, kp := o.empty(o.t, len(x)), o.room(8)
		if o.err != nil {
			return o.err
		}
		if err := o.write(kp, binary.LittleEndian.AppendUint64(nil, key)); err != nil {
			return err
		}
		if err := o.set.Dropout(o.s, o.t, int64(len(x)), y, xp, kp, drop.Threshold(), 2, c, hw); err != nil {
			return err
		}
		want := make([]float64, len(x))
		for i, v := range x {
			e := (i/(c*hw)*c+i%c)*hw + i/c%hw
			if op.DropoutKeep(key, e, drop.Threshold()) {
				want[i] = 2 * v
			}
		}
		o.exact("y", o.t, y, want)
		return nil
	}},
	{"embedding", floats, func(o *opRun) error {
		const rows, dim = 50, 24
		n := o.size(700)
		w := o.random(rows * dim)
		ids := make([]float64, n)
		for i := range ids {
			ids[i] = float64(i * i % 47)
		}
		dy, dyp := o.with(n * dim)
		wp, ip, y, dw := o.put(o.t, w), o.put(kernels.Int32, ids), o.empty(o.t, n*dim), o.empty(kernels.Float32, rows*dim)
		if err := o.set.Embedding(o.s, o.t, o.t, n, rows, dim, y, wp, ip, 0); err != nil {
			return err
		}
		if err := o.set.EmbeddingGrad(o.s, o.t, n, rows, dim, dw, ip, dyp); err != nil {
			return err
		}
		wantY, wantD := make([]float64, n*dim), make([]float64, rows*dim)
		for i, v := range dy {
			at := int(ids[i/dim])*dim + i%dim
			wantY[i] = w[at]
			wantD[at] += v
		}
		o.exact("y", o.t, y, wantY)
		o.near("gradient", kernels.Float32, dw, wantD)
		return nil
	}},
}

var tableChecks = []opCheck{
	{"pack and unpack", floats, func(o *opRun) (err error) {
		const k, c, r, s, padC = 6, 3, 3, 3, 8
		x := o.random(k * c * r * s)
		for i := range x {
			x[i] = math.Round(x[i]*16) / 16
		}
		xp, last, back := o.put(kernels.Float32, x), o.empty(o.t, k*r*s*padC), o.empty(kernels.Float32, len(x))
		if o.err != nil {
			return o.err
		}
		there, err := o.set.NewTable(o.s, []kernels.Tensor{{Type: o.t, K: k, C: c, R: r, S: s, PadC: padC, RowMajor: xp, ChannelLast: last}})
		if err != nil {
			return err
		}
		again, err := o.set.NewTable(o.s, []kernels.Tensor{{Type: o.t, K: k, C: c, R: r, S: s, PadC: padC, RowMajor: back, ChannelLast: last}})
		if err != nil {
			return err
		}
		if err := o.set.Pack(o.s, there); err != nil {
			return err
		}
		if err := o.set.Unpack(o.s, again, 1, 0, 0); err != nil {
			return err
		}
		want := make([]float64, k*r*s*padC)
		for i, v := range x {
			pos := i % (r * s)
			want[(i/(c*r*s)*r*s+pos)*padC+i/(r*s)%c] = v
		}
		o.exact("packed", o.t, last, want)
		o.exact("unpacked", kernels.Float32, back, x)
		if err := o.set.FreeTable(there); err != nil {
			return err
		}
		return o.set.FreeTable(again)
	}},
	{"optimizers", single, func(o *opRun) error {
		n := o.size(20001)
		u := kernels.Update{Scale: 0.5, Clip: 1.5, Shrink: 1, Rate: 0.1, Decay: 0.01, Momentum: 0.9, Epsilon: 1e-8, Keep: 0.999, Beta1: 0.9, Rest1: 0.1, Beta2: 0.99, Rest2: 0.01, Root: 1.5}
		update := o.room(kernels.UpdateBytes)
		if o.err != nil {
			return o.err
		}
		if err := o.write(update, updateBytes(u)); err != nil {
			return err
		}
		for _, rule := range []string{"sgd", "momentum", "nesterov", "adam"} {
			w, g, m := o.random(n), o.random(n), o.random(n)
			v := mapped(o.random(n), func(x float64) float64 { return x * x })
			wp, gp, mp, vp := o.put(o.t, w), o.put(o.t, g), o.put(o.t, m), o.put(o.t, v)
			var err error
			switch rule {
			case "sgd":
				err = o.set.SGD(o.s, int64(n), wp, gp, update, 0)
			case "momentum":
				err = o.set.MomentumSGD(o.s, int64(n), wp, gp, mp, update, 0)
			case "nesterov":
				err = o.set.Nesterov(o.s, int64(n), wp, gp, mp, update, 0)
			case "adam":
				err = o.set.Adam(o.s, int64(n), wp, gp, mp, vp, update, 0)
			}
			if err != nil {
				return err
			}
			rate, momentum := float64(u.Rate), float64(u.Momentum)
			for i := range w {
				d := min(max(float64(u.Scale)*g[i], -float64(u.Clip)), float64(u.Clip))*float64(u.Shrink) + float64(u.Decay)*w[i]
				switch rule {
				case "sgd":
					w[i] -= rate * d
				case "momentum":
					m[i] = momentum*m[i] - rate*d
					w[i] += m[i]
				case "nesterov":
					m[i] = momentum*m[i] - rate*d
					w[i] += momentum*m[i] - rate*d
				case "adam":
					m[i] = float64(u.Beta1)*m[i] + float64(u.Rest1)*d
					v[i] = float64(u.Beta2)*v[i] + float64(u.Rest2)*d*d
					w[i] = float64(u.Keep)*w[i] - rate*m[i]/(math.Sqrt(v[i])*float64(u.Root)+float64(u.Epsilon))
				}
			}
			o.near(rule, o.t, wp, w)
			o.near(rule+"'s state", o.t, mp, m)
		}
		return nil
	}},
}

// updateBytes is an update as it lies on the device.
func updateBytes(u kernels.Update) []byte {
	var m []byte
	for _, w := range u.Words() {
		m = binary.LittleEndian.AppendUint32(m, math.Float32bits(w))
	}
	return m
}
