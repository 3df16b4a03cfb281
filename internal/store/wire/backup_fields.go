package wire

// Each message lists its fields once, in the order of its comment.

func (m *Replicate) Kind() Kind { return KindReplicate }

func (m *Replicate) fields(c *coder) {
	m.Copy.fields(c)
	c.u64(&m.Number)
	c.u64(&m.Round)
	c.u64(&m.Closed)
	c.u8(&m.Form)
	c.u64(&m.Rows)
	c.f64(&m.Weight)
	m.Rate.fields(c)
	m.Norms.fields(c)
	c.bool(&m.Keep)
	c.bool(&m.Configured)
	c.bool(&m.Clipped)
	c.f64(&m.ClipNorm)
	c.f64(&m.ClipFactor)
	c.u32(&m.ClipRank)
	c.string(&m.Config)
	list(c, &m.Counts, 38, func(c *coder, x *CountedPush) {
		c.u64(&x.Node)
		c.u64(&x.Seq)
		c.f32(&x.Weight)
		c.bool(&x.Counted)
		c.f64(&x.Norm)
		c.u8(&x.Verdict)
		c.u64(&x.Examples)
	})
}

func (m *Fill) Kind() Kind { return KindFill }

func (m *Fill) fields(c *coder) {
	m.Copy.fields(c)
	c.u64(&m.Number)
	m.Init.fields(c)
	c.u64(&m.Round)
	c.u64(&m.Closed)
	c.u8(&m.Mode)
	c.u64(&m.Rows)
	c.bool(&m.Pushed)
	c.bool(&m.AnySeq)
	c.string(&m.Config)
	c.string(&m.Base)
	c.strings(&m.Slots)
	list(c, &m.Members, 46, func(c *coder, x *FillMember) {
		c.u64(&x.Node)
		c.u64(&x.LastSeq)
		c.u64(&x.Base)
		c.u64(&x.Examples)
		c.bool(&x.Known)
		c.bool(&x.Newest)
		c.f32(&x.Weight)
		c.u64(&x.Caught)
	})
	c.bool(&m.Counted)
	list(c, &m.Left, 16, func(c *coder, x *NodeCount) {
		c.u64(&x.Node)
		c.u64(&x.Count)
	})
	c.string(&m.Guard)
	list(c, &m.Norms, 8, (*coder).f64)
	c.u32(&m.Barren)
	m.Newest.fields(c)
	c.f64(&m.Weight)
	c.bool(&m.Kept)
	c.u64(&m.KeptRound)
	c.f64(&m.KeptWeight)
	c.u64(&m.Examples)
	c.u32(&m.Whole)
}

func (m *FillPart) Kind() Kind { return KindFillPart }

func (m *FillPart) fields(c *coder) {
	m.Copy.fields(c)
	c.u64(&m.Number)
	c.u32(&m.Array)
	c.u64(&m.From)
	c.u64(&m.Count)
	c.bool(&m.Last)
}

func (m *Filled) Kind() Kind { return KindFilled }

func (m *Filled) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Placement)
	c.bool(&m.OK)
	list(c, &m.Shards, 20, func(c *coder, x *FilledShard) {
		c.u64(&x.Key)
		c.u32(&x.Shard)
		c.u64(&x.Backup)
	})
}

func (m *ReadPlaces) Kind() Kind { return KindReadPlaces }

func (m *ReadPlaces) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.From)
}

func (m *Places) Kind() Kind { return KindPlaces }

func (m *Places) fields(c *coder) {
	c.u64(&m.Placement)
	c.u64(&m.Next)
	c.u64(&m.Keys)
	list(c, &m.Places, 20, func(c *coder, x *Place) {
		c.u64(&x.Key)
		c.u32(&x.Shard)
		c.u32(&x.Server)
		c.u32(&x.Backup)
	})
}

func (m *Copy) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Node)
	c.u64(&m.Placement)
	c.u64(&m.Key)
	c.u32(&m.Shard)
}
