package wire

// PushMany carries one worker's gradients for several dense shards of one server. Each is a Push of
// its own, with its own sequence number and round, and counts by itself: as if each had come in a
// message of its own.
//
//	offset  size  field
//	     0     .  pushes      list of at most MaxPushes, each
//	           .    push      the head of a Push
//	           4    size      bytes of its payload
//
// Payload: those of the pushes, one after the other, at most MaxManyPayload bytes. All pushes have
// the generation, node and rank of the first. Answer: PushedMany, once each push that may be
// answered is; none waits longer than its own wait, which is then refused with CodeTimeout, and no
// contribution waits for another push of the message. What concerns the sender, such as
// CodeStaleGeneration, and a message without this form, is a Nack for all. Each push may be sent
// again, in a PushMany or as a Push, and is then acknowledged and counted once, as a repeated Push
// is. Introduced in version 2.
type PushMany struct {
	Pushes []SizedPush
}

// A SizedPush is one push of a PushMany.
type SizedPush struct {
	Push
	Size uint32
}

// PushedMany answers PushMany.
//
//	offset  size  field
//	     0     8  generation
//	     8     .  values      list: a Value for each push with answer 1, in the order of the pushes; all zeros for one that was refused
//	     .     .  refused     list, in the order of the pushes, each
//	           4    index     of the push, from 0
//	           2    code
//	           8    generation  the server's
//	           4+   text      string
//
// Payload: the values, one after the other. A push without answer that is not refused is
// acknowledged. Introduced in version 2.
type PushedMany struct {
	Generation uint64
	Values     []Value
	Refused    []RefusedPush
}

// A RefusedPush is the Nack for one push of a PushMany.
type RefusedPush struct {
	Index      uint32
	Code       Code
	Generation uint64
	Text       string
}

// The limits of a PushMany.
const (
	MaxPushes      = 1 << 12
	MaxManyPayload = 1 << 20
)

// Order is that of the first layer among its keys.
func (m *PushMany) Order() uint64 {
	if len(m.Pushes) == 0 {
		return 0
	}
	least := m.Pushes[0].Key
	for i := range m.Pushes {
		least = min(least, m.Pushes[i].Key)
	}
	return least
}
