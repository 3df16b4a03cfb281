package suggest

import (
	"cmp"
	"math"
	"slices"
)

// An evaluator computes one mixture's density at many points without taking memory for each.
type evaluator struct {
	m         *mixture
	logWeight []float64
	terms     []float64
	// accepted is the log of the mass inside the bounds, where it is divided out over the
	// mixture.
	accepted float64

	// Of a single continuous dim with many observations: kernels of about the least width,
	// sorted, of which only those near a point are looked at; and all the others.
	near  []kernel
	reach float64
	wide  []kernel
}

// A kernel is w·N(mu, 1/inv²) with the log of the weight and of all constants in scale.
type kernel struct{ mu, inv, scale float64 }

// manyKernels is from where on it pays to sort kernels.
const manyKernels = 200

// farOff is the distance in standard deviations beyond which a kernel is below e⁻⁴⁰ of its top.
const farOff = 9

func (m *mixture) evaluator() *evaluator {
	e := &evaluator{m: m}
	if len(m.dims) == 1 && m.dims[0].choices == 0 && m.dims[0].step == 0 && len(m.weight) > manyKernels {
		e.sortKernels()
	} else {
		e.logWeight, e.terms = make([]float64, len(m.weight)), make([]float64, len(m.weight))
		for i, w := range m.weight {
			e.logWeight[i] = math.Log(w)
		}
	}
	for j, d := range m.dims {
		if !m.rules.hyperopt || d.choices > 0 {
			continue
		}
		f, mass := &m.factors[j], 0.0
		for i, w := range m.weight {
			mass += w * normalMass((f.lo-f.mu[i])/f.sigma[i], (f.hi-f.mu[i])/f.sigma[i])
		}
		e.accepted += math.Log(mass)
	}
	return e
}

func (e *evaluator) sortKernels() {
	f := &e.m.factors[0]
	limit := 2 * slices.Min(f.sigma)
	for i, s := range f.sigma {
		k := kernel{f.mu[i], 1 / s, f.scale[i] + math.Log(e.m.weight[i])}
		if s > limit {
			e.wide = append(e.wide, k)
		} else {
			e.near = append(e.near, k)
		}
	}
	e.reach = farOff * limit
	slices.SortFunc(e.near, func(a, b kernel) int {
		return cmp.Or(cmp.Compare(a.mu, b.mu), cmp.Compare(a.inv, b.inv), cmp.Compare(a.scale, b.scale))
	})
}

// logDensity is the log density (log probability, of stepped dims and choices) of the point x, in
// values.
func (e *evaluator) logDensity(x []float64) float64 {
	if e.logWeight == nil {
		return e.nearby(e.m.dims[0].inner(x[0])) - e.accepted
	}
	terms := e.terms
	copy(terms, e.logWeight)
	for j, d := range e.m.dims {
		f := &e.m.factors[j]
		switch {
		case d.choices > 0:
			c := int(x[j])
			for i := range terms {
				terms[i] += f.table[f.class[i]][c]
			}
		case d.step > 0:
			a, b := d.cell(x[j])
			for i := range terms {
				s := f.sigma[i]
				za, zb := (a-f.mu[i])/s, (b-f.mu[i])/s
				if za > 38 || zb < -38 {
					terms[i] = math.Inf(-1)
					continue
				}
				terms[i] += math.Log(normalMass(za, zb)) + f.scale[i]
			}
		default:
			v := d.inner(x[j])
			for i := range terms {
				z := (v - f.mu[i]) / f.sigma[i]
				terms[i] += f.scale[i] - 0.5*z*z
			}
		}
	}
	return logSumExp(terms) - e.accepted
}

// nearby adds up the kernels that count at v. The prior's, which is wide, keeps the sum above zero.
func (e *evaluator) nearby(v float64) float64 {
	sum := 0.0
	add := func(k kernel) {
		z := (v - k.mu) * k.inv
		sum += math.Exp(k.scale - 0.5*z*z)
	}
	for _, k := range e.wide {
		add(k)
	}
	i, _ := slices.BinarySearchFunc(e.near, v-e.reach, func(k kernel, x float64) int { return cmp.Compare(k.mu, x) })
	for ; i < len(e.near) && e.near[i].mu <= v+e.reach; i++ {
		add(e.near[i])
	}
	return math.Log(sum)
}
