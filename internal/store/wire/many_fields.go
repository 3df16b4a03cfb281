package wire

func (m *PushMany) Kind() Kind { return KindPushMany }

// Decoding reuses the memory of the list.
func (m *PushMany) fields(c *coder) {
	reusedList(c, &m.Pushes, pushSize+4, MaxPushes)
	for i := range m.Pushes {
		p := &m.Pushes[i]
		p.Push.fields(c)
		c.u32(&p.Size)
	}
}

// pushSize is the size of the head of a Push without contributors.
const pushSize = 132

func (m *PushedMany) Kind() Kind { return KindPushedMany }

// Decoding reuses the memory of the lists.
func (m *PushedMany) fields(c *coder) {
	c.u64(&m.Generation)
	reusedList(c, &m.Values, valueSize, MaxPushes)
	for i := range m.Values {
		m.Values[i].fields(c)
	}
	reusedList(c, &m.Refused, 18, MaxPushes)
	for i := range m.Refused {
		r := &m.Refused[i]
		c.u32(&r.Index)
		c.code(&r.Code)
		c.u64(&r.Generation)
		c.string(&r.Text)
	}
}

// valueSize is the size of the head of a Value.
const valueSize = 102
