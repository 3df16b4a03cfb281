package wire

// Each message lists its fields once, in the order of its comment.

func (m *ReadRows) Kind() Kind { return KindReadRows }

func (m *ReadRows) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.u64(&m.From)
	c.u64(&m.Count)
	c.u32(&m.WaitMillis)
}

func (m *Rows) Kind() Kind { return KindRows }

func (m *Rows) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Round)
	c.u64(&m.Total)
	c.u64(&m.Rows)
	c.string(&m.Config)
	c.strings(&m.Slots)
}

func (m *WriteRows) Kind() Kind { return KindWriteRows }

func (m *WriteRows) fields(c *coder) {
	m.Init.fields(c)
	c.u64(&m.Round)
	c.bool(&m.First)
	c.u64(&m.Rows)
	c.strings(&m.Slots)
}

func (m *ReadUsage) Kind() Kind { return KindReadUsage }

func (m *ReadUsage) fields(c *coder) {
	m.Origin.fields(c)
}

func (m *Usage) Kind() Kind { return KindUsage }

func (m *Usage) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Shards)
	c.u64(&m.Rows)
	c.u64(&m.Values)
	c.u64(&m.State)
	c.u64(&m.Index)
	list(c, &m.Caught, 32, func(c *coder, x *CaughtCount) {
		c.u64(&x.Node)
		c.u32(&x.Rank)
		c.u64(&x.Refused)
		c.u64(&x.Clipped)
		c.string(&x.Host)
	})
}
