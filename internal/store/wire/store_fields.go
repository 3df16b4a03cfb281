package wire

// The messages between workers and servers. Each lists its fields once, in the order of its
// comment.

func (m *InitShard) Kind() Kind { return KindInitShard }

func (m *InitShard) fields(c *coder) {
	m.Origin.fields(c)
	c.u8(&m.Form)
	c.u8(&m.Rule)
	c.u64(&m.Offset)
	c.u64(&m.Length)
	c.u64(&m.RowLen)
	c.u64(&m.Size)
	c.u32(&m.Shards)
	c.bool(&m.Zeros)
	c.string(&m.Name)
	c.string(&m.Table)
}

func (m *AwaitShard) Kind() Kind { return KindAwaitShard }

func (m *AwaitShard) fields(c *coder) {
	m.Origin.fields(c)
	c.u32(&m.WaitMillis)
}

func (m *Push) Kind() Kind { return KindPush }

func (m *Push) fields(c *coder) {
	w, ok := c.window(120)
	if !ok {
		return
	}
	w.u64(0, &m.Generation)
	w.u64(8, &m.Node)
	w.u32(16, &m.Rank)
	w.u64(20, &m.Key)
	w.u32(28, &m.Shard)
	w.u64(32, &m.Seq)
	w.u64(40, &m.Round)
	w.f32(48, &m.Weight)
	w.u8(52, &m.Codec)
	w.f32(53, &m.Threshold)
	w.u64(57, &m.N)
	w.bool(65, &m.Answer)
	w.u8(66, &m.AnswerCodec)
	w.u32(67, &m.WaitMillis)
	w.bool(71, &m.Counted)
	w.bool(72, &m.Judged)
	w.f64(73, &m.Norm)
	w.bool(81, &m.Step.Measure)
	w.bool(82, &m.Step.Rate.Scaled)
	w.f64(83, &m.Step.Rate.Factor)
	w.bool(91, &m.Step.Rate.ByProgress)
	w.f64(92, &m.Step.Rate.Progress)
	w.f64(100, &m.Step.Rate.Gain)
	w.u32(108, &m.Step.Micro)
	w.f64(112, &m.Step.MicroSqr)
	// It is not list, whose function value costs an allocation.
	n := c.count(len(m.Contributors), 57, MaxContributors)
	if c.decoding {
		m.Contributors = nil
		if n > 0 {
			m.Contributors = make([]Contributor, n)
		}
	}
	for i := range m.Contributors {
		m.Contributors[i].fields(c)
	}
	c.u64(&m.Examples)
}

func (m *Contributor) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Seq)
	c.f32(&m.Weight)
	c.bool(&m.Counted)
	c.u32(&m.Micro)
	c.f64(&m.MicroSqr)
	c.f64(&m.Sqr)
	c.u64(&m.Early)
	c.u64(&m.Examples)
}

func (m *Pull) Kind() Kind { return KindPull }

func (m *Pull) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.u8(&m.Codec)
	c.u32(&m.WaitMillis)
	c.u64(&m.Staleness)
}

func (m *Value) Kind() Kind { return KindValue }

func (m *Value) fields(c *coder) {
	w, ok := c.window(valueSize)
	if !ok {
		return
	}
	w.u64(0, &m.Generation)
	w.u64(8, &m.Round)
	w.u8(16, &m.Codec)
	w.u64(17, &m.N)
	w.u64(25, &m.Missed)
	w.u64(33, &m.Lead)
	w.u64(41, &m.Caught)
	w.f64(49, &m.Limit)
	w.u32(57, &m.Norms.Count)
	w.bool(61, &m.Norms.Biased)
	w.f64(62, &m.Norms.Examples)
	w.f64(70, &m.Norms.MeanSqr)
	w.f64(78, &m.Norms.SqrMean)
	w.f64(86, &m.Weight)
	w.u64(94, &m.Examples)
}

func (m *PushRows) Kind() Kind { return KindPushRows }

func (m *PushRows) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.f32(&m.Weight)
	c.u64(&m.Rows)
	c.u32(&m.WaitMillis)
	c.bool(&m.Counted)
	m.Step.fields(c)
	c.u64(&m.Examples)
}

func (m *PullRows) Kind() Kind { return KindPullRows }

func (m *PullRows) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.u64(&m.Rows)
	c.u32(&m.WaitMillis)
	c.u64(&m.Staleness)
}

func (m *SetOptimizer) Kind() Kind { return KindSetOptimizer }

func (m *SetOptimizer) fields(c *coder) {
	m.Origin.fields(c)
	c.u8(&m.Mode)
	c.string(&m.Config)
	c.string(&m.Guard)
}

func (m *SetRate) Kind() Kind { return KindSetRate }

func (m *SetRate) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.f64(&m.Rate)
}

func (m *ReadState) Kind() Kind { return KindReadState }

func (m *ReadState) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.Round)
	c.u32(&m.WaitMillis)
}

func (m *State) Kind() Kind { return KindState }

func (m *State) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Round)
	c.u64(&m.N)
	c.string(&m.Config)
	c.strings(&m.Slots)
}

func (m *WriteState) Kind() Kind { return KindWriteState }

func (m *WriteState) fields(c *coder) {
	m.Init.fields(c)
	c.u64(&m.Round)
	c.strings(&m.Slots)
}

func (m *Origin) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Node)
	c.u32(&m.Rank)
	c.u64(&m.Key)
	c.u32(&m.Shard)
	c.u64(&m.Seq)
}

func (m *Step) fields(c *coder) {
	c.bool(&m.Measure)
	m.Rate.fields(c)
	c.u32(&m.Micro)
	c.f64(&m.MicroSqr)
}

func (m *RoundRate) fields(c *coder) {
	c.bool(&m.Scaled)
	c.f64(&m.Factor)
	c.bool(&m.ByProgress)
	c.f64(&m.Progress)
	c.f64(&m.Gain)
}

func (m *Norms) fields(c *coder) {
	c.u32(&m.Count)
	c.bool(&m.Biased)
	c.f64(&m.Examples)
	c.f64(&m.MeanSqr)
	c.f64(&m.SqrMean)
}
