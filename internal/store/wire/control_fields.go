package wire

// The messages between nodes and the scheduler. Each lists its fields once, in the order of its
// comment.

func (m *Ack) Kind() Kind { return KindAck }

func (m *Ack) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Revision)
}

func (m *Nack) Kind() Kind { return KindNack }

func (m *Nack) fields(c *coder) {
	c.code(&m.Code)
	c.u64(&m.Generation)
	c.string(&m.Text)
}

func (m *Register) Kind() Kind { return KindRegister }

func (m *Register) fields(c *coder) {
	c.u64(&m.Node)
	c.u8(&m.Role)
	c.i32(&m.Rank)
	c.u32(&m.Workers)
	c.u32(&m.Servers)
	c.u32(&m.PID)
	c.u32(&m.Process)
	c.u64(&m.Nonce)
	c.bool(&m.Joining)
	c.string(&m.Job)
	c.string(&m.Host)
	c.string(&m.Addr)
}

func (m *Registered) Kind() Kind { return KindRegistered }

func (m *Registered) fields(c *coder) {
	c.u64(&m.Node)
	c.u32(&m.HeartbeatMillis)
	c.u32(&m.LeaseMillis)
}

func (m *Watch) Kind() Kind { return KindWatch }

func (m *Watch) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Revision)
	c.u32(&m.WaitMillis)
}

func (m *Membership) Kind() Kind { return KindMembership }

func (m *Membership) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Revision)
	c.u8(&m.Phase)
	c.u32(&m.Workers)
	c.u32(&m.Servers)
	c.string(&m.Reason)
	c.strings(&m.Waiting)
	list(c, &m.Nodes, 26, func(c *coder, x *Member) { x.fields(c) })
	c.u64(&m.Change)
	c.u64(&m.Placement)
	c.u32(&m.Backups)
	list(c, &m.LostToCount, 8, (*coder).u64)
	m.Division.fields(c)
	c.bool(&m.Stopping)
}

func (m *Heartbeat) Kind() Kind { return KindHeartbeat }

func (m *Heartbeat) fields(c *coder) {
	c.u64(&m.Node)
	c.u64(&m.Generation)
	c.u64(&m.Step)
	c.u64(&m.Epoch)
	c.text(&m.Adaptation, MaxAdaptation)
	c.i64(&m.Sent)
	c.bytes(&m.Record, MaxRecord)
	c.u32(&m.WaitsMillis)
	c.text(&m.Call, MaxWaitText)
	c.text(&m.WaitsFor, MaxWaitText)
}

func (m *Beat) Kind() Kind { return KindBeat }

func (m *Beat) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Revision)
	c.u64(&m.Incarnation)
	c.i64(&m.At)
	m.Window.fields(c)
}

func (m *TraceWindow) fields(c *coder) {
	c.u64(&m.ID)
	c.i64(&m.StartAt)
	c.u32(&m.Steps)
	c.u32(&m.LimitMillis)
}

func (m *TraceChunk) Kind() Kind { return KindTraceChunk }

func (m *TraceChunk) fields(c *coder) {
	c.u64(&m.ID)
	c.u64(&m.Node)
	c.u32(&m.Seq)
	c.bool(&m.Last)
	c.u64(&m.Dropped)
	c.i64(&m.ClockOffset)
	c.i64(&m.ClockBound)
	c.bytes(&m.Data, MaxTraceChunk)
}

func (m *Declare) Kind() Kind { return KindDeclare }

func (m *Declare) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Node)
	c.u8(&m.Form)
	c.u8(&m.Rule)
	c.u64(&m.Size)
	c.u64(&m.RowLen)
	c.bool(&m.Whole)
	c.string(&m.Name)
	c.string(&m.Table)
}

func (m *KeyPlan) Kind() Kind { return KindKeyPlan }

func (m *KeyPlan) fields(c *coder) {
	c.u64(&m.Key)
	c.u8(&m.Form)
	c.u8(&m.Rule)
	c.u64(&m.Size)
	c.u64(&m.RowLen)
	c.u64(&m.Hash)
	c.string(&m.Name)
	list(c, &m.Shards, 20, func(c *coder, x *ShardPlace) { x.fields(c) })
}

func (m *Barrier) Kind() Kind { return KindBarrier }

func (m *Barrier) fields(c *coder) {
	c.u64(&m.Generation)
	c.u64(&m.Node)
	c.u32(&m.WaitMillis)
	c.string(&m.Name)
}

func (m *Leave) Kind() Kind { return KindLeave }

func (m *Leave) fields(c *coder) {
	c.u64(&m.Node)
	c.bool(&m.OK)
	c.string(&m.Reason)
	c.bytes(&m.Record, MaxRecord)
}

func (m *Signal) Kind() Kind { return KindSignal }

func (m *Signal) fields(c *coder) {
	c.u64(&m.Node)
	c.string(&m.Name)
	c.text(&m.Value, MaxHead)
}

func (m *Await) Kind() Kind { return KindAwait }

func (m *Await) fields(c *coder) {
	c.u64(&m.Node)
	c.u32(&m.WaitMillis)
	c.string(&m.Name)
}

func (m *Signalled) Kind() Kind { return KindSignalled }

func (m *Signalled) fields(c *coder) { c.text(&m.Value, MaxHead) }

func (m *Member) fields(c *coder) {
	c.u64(&m.Node)
	c.u8(&m.Role)
	c.i32(&m.Rank)
	c.u32(&m.PID)
	c.u8(&m.State)
	c.string(&m.Host)
	c.string(&m.Addr)
}

func (m *ShardPlace) fields(c *coder) {
	c.u32(&m.Server)
	c.u64(&m.Offset)
	c.u64(&m.Length)
}
