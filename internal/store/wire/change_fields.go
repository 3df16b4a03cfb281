package wire

// The messages of a membership that changes. Each lists its fields once, in the order of its
// comment.

func (m *Ready) Kind() Kind { return KindReady }

func (m *Ready) fields(c *coder) {
	c.u64(&m.Node)
	c.u32(&m.WaitMillis)
}

func (m *Stopped) Kind() Kind { return KindStopped }

func (m *Stopped) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Steps)
	c.string(&m.Reason)
}

func (m *AskLeave) Kind() Kind { return KindAskLeave }

func (m *AskLeave) fields(c *coder) {
	c.u64(&m.Node)
	c.string(&m.Reason)
}

func (m *Arrive) Kind() Kind { return KindArrive }

func (m *Arrive) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Node)
	c.u64(&m.Change)
	c.u64(&m.Steps)
	c.u64(&m.Epoch)
	c.u64(&m.Step)
	c.u64(&m.Used)
	c.bool(&m.Stop)
	c.u32(&m.WaitMillis)
	list(c, &m.Earlier, 8, (*coder).u64)
	list(c, &m.Resumed, 8, (*coder).u64)
	list(c, &m.Cuts, 8, func(c *coder, x *Cut) { x.fields(c) })
	c.string(&m.Order)
}

func (m *LostExamples) Kind() Kind { return KindLostExamples }

func (m *LostExamples) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Placement)
	c.u64(&m.Lost)
	c.u64(&m.Examples)
}

func (m *Control) Kind() Kind { return KindControl }

func (m *Control) fields(c *coder) {
	c.string(&m.Request)
}

func (m *Report) Kind() Kind { return KindReport }

func (m *Report) fields(c *coder) {
	c.text(&m.Answer, MaxHead)
}

func (m *Division) fields(c *coder) {
	c.u64(&m.Epoch)
	c.u64(&m.Steps)
	list(c, &m.Cuts, 8, func(c *coder, x *Cut) { x.fields(c) })
	c.u64(&m.Change)
	c.u64(&m.Step)
	c.bool(&m.Stop)
	c.string(&m.Order)
}

func (m *Cut) fields(c *coder) {
	c.u32(&m.Parts)
	list(c, &m.Used, 8, (*coder).u64)
}
