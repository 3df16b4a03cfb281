package wire

// Clip is a worker's part in clipping the gradients of a round by their norm over all keys
// (optim.Config.ClipGlobalNorm). The round of such a shard is held when all contributions are in its
// sum, and closes when the first Clip with a factor comes. Without one the answer brings the squares
// of the sum, from which every worker finds the same factor. Answer: Clipped, once the round is held
// or has closed; CodeConflict if the shard does not hold rounds.
//
//	offset  size  field
//	     0    40  origin
//	    40     8  round       from 0
//	    48     4  wait        milliseconds
//	    52     1  decides     norm and factor are set
//	    53     8  norm        float64: over all keys; NaN: it is not finite
//	    61     8  factor      float64: of the gradients, above 0 and at most 1; 0: the round changes neither value nor state
//
// Sent again, or by another worker: the first factor counts, and the answer names it. Introduced in
// version 3.
type Clip struct {
	Origin
	Round      uint64
	WaitMillis uint32
	Decides    bool
	Norm       float64
	Factor     float64
}

// Clipped answers Clip.
//
//	offset  size  field
//	     0     8  generation  the server's
//	     8     1  closed      the round has closed
//	     9     1  decided     norm, factor and rank are known: they are of the newest two rounds
//	    10     8  norm        as of Clip
//	    18     8  factor      as of Clip
//	    26     4  rank        of the worker that decided
//	    30     .  squares     list of uint32, unless closed: Σg² over the sum in units of 2^-320, digits of base 2^32, the lowest first; none: it is
//	                          not finite
//
// g is the gradient as the optimizer gets it: rescaled, and clipped element by element. Sums of 1024
// squares each, from multiples of 1024 on within a dense key, and of each row of others, are taken in
// float64 and added without rounding. Introduced in version 3.
type Clipped struct {
	Generation uint64
	Closed     bool
	Decided    bool
	Norm       float64
	Factor     float64
	Rank       uint32
	Squares    []uint32
}

func (m *Clip) Kind() Kind { return KindClip }

func (m *Clip) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.u32(&m.WaitMillis)
	c.bool(&m.Decides)
	c.f64(&m.Norm)
	c.f64(&m.Factor)
}

func (m *Clipped) Kind() Kind { return KindClipped }

func (m *Clipped) fields(c *coder) {
	c.u64(&m.Generation)
	c.bool(&m.Closed)
	c.bool(&m.Decided)
	c.f64(&m.Norm)
	c.f64(&m.Factor)
	c.u32(&m.Rank)
	list(c, &m.Squares, 4, (*coder).u32)
}
