package wire

func (m *Profile) Kind() Kind { return KindProfile }

func (m *Profile) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.ID)
	c.u8(&m.Command)
	c.u32(&m.Spans)
}

func (m *ReadProfile) Kind() Kind { return KindReadProfile }

func (m *ReadProfile) fields(c *coder) {
	m.Origin.fields(c)
	c.u64(&m.ID)
	c.u64(&m.From)
}

func (m *ProfilePart) Kind() Kind { return KindProfilePart }

func (m *ProfilePart) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Next)
	c.u64(&m.Total)
	c.u64(&m.Dropped)
	c.i64(&m.ClockOffset)
	c.i64(&m.ClockBound)
	c.bool(&m.Overdue)
	c.bytes(&m.Data, MaxTraceChunk)
}
